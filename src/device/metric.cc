#include "device/metric.h"

#include <algorithm>

namespace sluice::device {

namespace {

using enum Metric;
constexpr auto kGpu = Scope::gpu;
constexpr auto kCpu = Scope::cpu;
constexpr auto kServer = Scope::server;
constexpr auto kGauge = Kind::gauge;
constexpr auto kCounter = Kind::counter;

constexpr double kMiB = 1.0 / (1024.0 * 1024.0);  // bytes to DCGM's unit of memory
constexpr double kMillijoules = 1000;             // joules to DCGM's millijoules
constexpr double kRatio = 0.01;                   // percent to Triton's 0..1

// One line per metric, in the order of the enum. A DCGM or Triton name is given only if it measures
// the same: their NVLink names are rates, ours count bytes.
// clang-format off
constexpr MetricInfo kMetrics[] = {
    {utilization, "utilization", "percent", "Share of time at least one kernel ran", kGpu, kGauge,
     "sluice_gpu_utilization_percent", "DCGM_FI_DEV_GPU_UTIL", 1, "nv_gpu_utilization", kRatio},
    {memory_activity, "memory_activity", "percent", "Share of time device memory was read or written", kGpu, kGauge,
     "sluice_gpu_memory_activity_percent", "DCGM_FI_DEV_MEM_COPY_UTIL", 1, "", 1},
    {memory_total, "memory_total", "bytes", "Device memory, all of it", kGpu, kGauge,
     "sluice_gpu_memory_total_bytes", "DCGM_FI_DEV_FB_TOTAL", kMiB, "nv_gpu_memory_total_bytes", 1},
    {memory_used, "memory_used", "bytes", "Device memory in use, without what the driver reserves", kGpu, kGauge,
     "sluice_gpu_memory_used_bytes", "DCGM_FI_DEV_FB_USED", kMiB, "nv_gpu_memory_used_bytes", 1},
    {memory_free, "memory_free", "bytes", "Device memory not in use", kGpu, kGauge,
     "sluice_gpu_memory_free_bytes", "DCGM_FI_DEV_FB_FREE", kMiB, "", 1},
    {memory_reserved, "memory_reserved", "bytes", "Device memory the driver keeps for itself", kGpu, kGauge,
     "sluice_gpu_memory_reserved_bytes", "DCGM_FI_DEV_FB_RESERVED", kMiB, "", 1},
    {throttle_reasons, "throttle_reasons", "", "Bits that say what holds the clock back", kGpu, kGauge,
     "sluice_gpu_throttle_reasons", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1, "", 1},

    {temperature, "temperature", "celsius", "Temperature of the chip", kGpu, kGauge,
     "sluice_gpu_temperature_celsius", "DCGM_FI_DEV_GPU_TEMP", 1, "", 1},
    {temperature_margin, "temperature_margin", "celsius", "Degrees left until the chip slows itself down", kGpu, kGauge,
     "sluice_gpu_temperature_margin_celsius", "", 1, "", 1},
    {memory_temperature, "memory_temperature", "celsius", "Temperature of the device memory", kGpu, kGauge,
     "sluice_gpu_memory_temperature_celsius", "DCGM_FI_DEV_MEMORY_TEMP", 1, "", 1},
    {power, "power", "watts", "Power drawn by the board", kGpu, kGauge,
     "sluice_gpu_power_watts", "DCGM_FI_DEV_POWER_USAGE", 1, "nv_gpu_power_usage", 1},
    {power_limit, "power_limit", "watts", "Power limit in force", kGpu, kGauge,
     "sluice_gpu_power_limit_watts", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 1, "nv_gpu_power_limit", 1},
    {energy, "energy", "joules", "Energy used since the driver was loaded", kGpu, kCounter,
     "sluice_gpu_energy_joules_total", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kMillijoules, "nv_energy_consumption", 1},
    {sm_clock, "sm_clock", "megahertz", "Clock of the multiprocessors", kGpu, kGauge,
     "sluice_gpu_sm_clock_megahertz", "DCGM_FI_DEV_SM_CLOCK", 1, "", 1},
    {memory_clock, "memory_clock", "megahertz", "Clock of the device memory", kGpu, kGauge,
     "sluice_gpu_memory_clock_megahertz", "DCGM_FI_DEV_MEM_CLOCK", 1, "", 1},
    {clock_ratio, "clock_ratio", "percent", "Multiprocessor clock against its maximum, while the GPU is busy", kGpu, kGauge,
     "sluice_gpu_clock_ratio_percent", "", 1, "", 1},
    {fan, "fan", "percent", "Fan speed", kGpu, kGauge,
     "sluice_gpu_fan_percent", "DCGM_FI_DEV_FAN_SPEED", 1, "", 1},
    {ecc_corrected, "ecc_corrected", "", "Memory errors corrected since the driver was loaded", kGpu, kCounter,
     "sluice_gpu_ecc_corrected_total", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 1, "", 1},
    {ecc_uncorrected, "ecc_uncorrected", "", "Memory errors not corrected since the driver was loaded", kGpu, kCounter,
     "sluice_gpu_ecc_uncorrected_total", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1, "", 1},
    {ecc_corrected_total, "ecc_corrected_total", "", "Memory errors corrected in the card's life", kGpu, kCounter,
     "sluice_gpu_ecc_corrected_lifetime_total", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", 1, "", 1},
    {ecc_uncorrected_total, "ecc_uncorrected_total", "", "Memory errors not corrected in the card's life", kGpu, kCounter,
     "sluice_gpu_ecc_uncorrected_lifetime_total", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 1, "", 1},
    {rows_remapped_corrected, "rows_remapped_corrected", "", "Memory rows replaced after corrected errors", kGpu, kCounter,
     "sluice_gpu_rows_remapped_corrected_total", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 1, "", 1},
    {rows_remapped_uncorrected, "rows_remapped_uncorrected", "", "Memory rows replaced after uncorrected errors", kGpu, kCounter,
     "sluice_gpu_rows_remapped_uncorrected_total", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1, "", 1},
    {rows_pending, "rows_pending", "", "1 when a row will be replaced at the next reset", kGpu, kGauge,
     "sluice_gpu_rows_pending", "DCGM_FI_DEV_ROW_REMAP_PENDING", 1, "", 1},
    {rows_failed, "rows_failed", "", "1 when a row could not be replaced", kGpu, kGauge,
     "sluice_gpu_rows_failed", "DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, "", 1},
    {pages_retired, "pages_retired", "", "Memory pages taken out of use (before Ampere)", kGpu, kCounter,
     "sluice_gpu_pages_retired_total", "", 1, "", 1},
    {pcie_replays, "pcie_replays", "", "PCIe packets sent again", kGpu, kCounter,
     "sluice_gpu_pcie_replays_total", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1, "", 1},
    {nvlink_active, "nvlink_active", "", "NVLinks that are up", kGpu, kGauge,
     "sluice_gpu_nvlink_active", "", 1, "", 1},
    {nvlink_tx, "nvlink_tx", "bytes", "Bytes sent over NVLink since the driver was loaded", kGpu, kCounter,
     "sluice_gpu_nvlink_transmitted_bytes_total", "", 1, "", 1},
    {nvlink_rx, "nvlink_rx", "bytes", "Bytes received over NVLink since the driver was loaded", kGpu, kCounter,
     "sluice_gpu_nvlink_received_bytes_total", "", 1, "", 1},
    {nvlink_errors, "nvlink_errors", "", "NVLink replays, recoveries and CRC errors", kGpu, kCounter,
     "sluice_gpu_nvlink_errors_total", "", 1, "", 1},
    {recovery_action, "recovery_action", "", "What the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset", kGpu, kGauge,
     "sluice_gpu_recovery_action", "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 1, "", 1},
    {xid_last, "xid_last", "", "Code of the newest XID event", kGpu, kGauge,
     "sluice_gpu_xid_last", "DCGM_FI_DEV_XID_ERRORS", 1, "", 1},
    {xid_count, "xid_count", "", "XID events seen since Sluice started", kGpu, kCounter,
     "sluice_gpu_xid_events_total", "", 1, "", 1},
    {process_count, "process_count", "", "Processes that hold the GPU", kGpu, kGauge,
     "sluice_gpu_processes", "", 1, "", 1},

    {cpu_utilization, "cpu_utilization", "percent", "Share of the usable cores that was busy", kCpu, kGauge,
     "sluice_cpu_utilization_percent", "", 1, "nv_cpu_utilization", kRatio},
    {cpu_load, "cpu_load", "", "Load average over one minute", kCpu, kGauge,
     "sluice_cpu_load", "", 1, "", 1},
    {host_memory_total, "host_memory_total", "bytes", "Host memory, of our control group when it is limited", kCpu, kGauge,
     "sluice_host_memory_total_bytes", "", 1, "nv_cpu_memory_total_bytes", 1},
    {host_memory_used, "host_memory_used", "bytes", "Host memory in use", kCpu, kGauge,
     "sluice_host_memory_used_bytes", "", 1, "nv_cpu_memory_used_bytes", 1},
    {host_memory_free, "host_memory_free", "bytes", "Host memory that can still be had", kCpu, kGauge,
     "sluice_host_memory_free_bytes", "", 1, "", 1},
    {cpu_temperature, "cpu_temperature", "celsius", "Temperature of the CPU package", kCpu, kGauge,
     "sluice_cpu_temperature_celsius", "", 1, "", 1},

    {request_rate, "request_rate", "per_second", "Requests per second over the last interval", kServer, kGauge,
     "sluice_request_rate", "", 1, "", 1},
    {request_error_rate, "request_error_rate", "percent", "Share of requests answered with a 5xx status", kServer, kGauge,
     "sluice_request_error_percent", "", 1, "", 1},
    {request_p50, "request_p50", "milliseconds", "Half of the requests were answered within this time", kServer, kGauge,
     "", "", 1, "", 1},
    {request_p99, "request_p99", "milliseconds", "99 of 100 requests were answered within this time", kServer, kGauge,
     "", "", 1, "", 1},
};
// clang-format on
static_assert(std::size(kMetrics) == kMetricCount);

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kMetricCount; ++i)
    if (static_cast<std::size_t>(kMetrics[i].id) != i) return false;
  return true;
}
static_assert(in_enum_order(), "a row of kMetrics is not where its id says");

}  // namespace

std::span<const MetricInfo, kMetricCount> metrics() noexcept { return kMetrics; }

std::optional<Metric> find_metric(std::string_view name) noexcept {
  const auto found = std::ranges::find(kMetrics, name, &MetricInfo::name);
  return found == std::end(kMetrics) ? std::nullopt : std::optional(found->id);
}

}  // namespace sluice::device
