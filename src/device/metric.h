// Everything that is measured over time, one row each. The sampler, the JSON
// routes, /metrics, history and alert rules all read this table; adding a metric
// is adding a row here and reading it in the sampler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::device {

enum class Metric : std::uint8_t {
  // GPU, every second
  utilization,      // % of time a kernel ran
  memory_activity,  // % of time memory was read or written
  memory_total,     // bytes
  memory_used,      // bytes, without what the driver reserves
  memory_free,
  memory_reserved,
  throttle_reasons,  // bits, see throttle_names()
  // GPU, every few seconds
  temperature,         // C
  temperature_margin,  // C until slowdown
  memory_temperature,  // C
  power,               // W
  power_limit,         // W, enforced
  energy,              // J since driver load
  sm_clock,            // MHz
  memory_clock,        // MHz
  clock_ratio,         // SM clock over its maximum, % , only while utilization >= 50
  fan,                 // %
  ecc_corrected,       // volatile: since driver load
  ecc_uncorrected,
  ecc_corrected_total,  // aggregate: since manufacture
  ecc_uncorrected_total,
  rows_remapped_corrected,
  rows_remapped_uncorrected,
  rows_pending,  // 0 or 1
  rows_failed,   // 0 or 1
  pages_retired,
  pcie_replays,
  nvlink_active,  // links up
  nvlink_tx,
  nvlink_rx,  // bytes since driver load
  nvlink_errors,
  recovery_action,  // NVML's: 0 none, 1 reset, 2 reboot, 3 drain p2p, 4 drain and reset, …
  xid_last,         // code of the newest XID
  xid_count,        // since start
  process_count,
  // CPU and this machine, every second
  cpu_utilization,  // % of the usable cores
  cpu_load,         // 1-minute load average
  host_memory_total,
  host_memory_used,
  host_memory_free,  // bytes, of our cgroup when limited
  cpu_temperature,   // C
  // this server
  request_rate,        // requests / s over the last interval
  request_error_rate,  // % of them answered 5xx
  request_p50,         // ms
  request_p99,         // ms
};
inline constexpr std::size_t kMetricCount = static_cast<std::size_t>(Metric::request_p99) + 1;

enum class Scope : std::uint8_t {
  gpu,
  cpu,
  server,
  owner,  // of memory: a lease or one of our pools; for rules only, not in the table below
};
enum class Kind : std::uint8_t { gauge, counter };

struct MetricInfo {
  Metric id;
  std::string_view name;  // as in JSON and rules: "temperature"
  std::string_view unit;  // "percent", "bytes", "celsius", … or ""
  std::string_view help;
  Scope scope;
  Kind kind;
  std::string_view prometheus;  // "sluice_gpu_temperature_celsius"; empty where /metrics has a
                                // histogram instead of this value
  std::string_view dcgm;        // "DCGM_FI_DEV_GPU_TEMP" or empty
  double dcgm_scale;            // ours times this is theirs: bytes to MiB is 1 / 1048576
  std::string_view triton;      // "nv_gpu_utilization" or empty
  double triton_scale;
};

std::span<const MetricInfo, kMetricCount> metrics() noexcept;
inline const MetricInfo& info(Metric m) noexcept { return metrics()[static_cast<std::size_t>(m)]; }
std::optional<Metric> find_metric(std::string_view name) noexcept;

}  // namespace sluice::device
