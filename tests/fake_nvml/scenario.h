// A machine and what happens to it, as data. README.md describes the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "curve.h"
#include "device/nvml/nvml_abi.h"

namespace sluice::fake {

namespace nvml = device::nvml;

inline constexpr double kGiB = 1024.0 * 1024 * 1024;

// When something is so: from at_s until until_s, then again every repeat_every_s,
// at most `times` times.
struct When {
  double at_s = 0;
  double until_s = 1e18;
  double repeat_every_s = 0;
  std::int64_t times = 1'000'000'000;

  bool is_active(double t_s) const;
  std::int64_t occurrences(double t_s) const;  // begun up to t_s
  double start_of(std::int64_t occurrence) const {
    return at_s + repeat_every_s * static_cast<double>(occurrence);
  }
};

enum class EventType {
  xid,
  ecc,
  rows,
  retired_pages,
  throttle,
  lost,
  hang,
  slow,
  fail,
  ghost,
  canary,
  recovery,
  link_down,
  nvlink_errors,
  pcie_replays,
};

struct Event {
  EventType type;
  When when;
  unsigned code = 0;                            // xid
  std::int64_t corrected = 0, uncorrected = 0;  // ecc, rows: per occurrence
  std::int64_t count = 0;                       // retired_pages, nvlink_errors, pcie_replays
  bool pending = false, failed = false;         // rows
  std::uint64_t bits = 0;                       // throttle
  double clock_factor = 1;                      // throttle
  std::optional<double> temperature;            // throttle
  double hidden_after_s = 1e18;                 // lost: leaves the enumeration
  std::string call;                             // hang, slow, fail: an NVML function, or "*"
  double seconds = 0;                           // hang, slow
  nvml::Return error = nvml::Return::unknown;   // fail
  std::int64_t after_calls = 0;                 // fail
  bool passes = false;                          // canary
  int action = 0;                               // recovery
  unsigned link = 0;                            // link_down
};

struct ProcessSpec {
  std::uint32_t pid;
  std::string name, kind;  // kind: compute, graphics, mps
  When when;
  Curve memory_gib, utilization;
};

struct Load {
  Curve utilization;                                       // %
  std::optional<Curve> memory_activity;                    // %
  std::optional<Curve> memory_gib;                         // used; else what the processes hold
  std::optional<Curve> temperature, power, sm_clock, fan;  // else from utilization
};

struct GpuSpec {
  std::string uuid, bus, name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  unsigned cores = 0, sm_mhz = 0, memory_mhz = 0;
  double power_w = 0;
  unsigned nvlinks = 0, nvlink_version = 0;
  bool ecc = false, fan = false, persistence = true, reports_memory = true;
  int numa_node = 0;
  std::optional<unsigned> mig_instances;  // absent: not MIG capable; 0: capable, off
  std::int64_t ecc_aggregate = 0;         // corrected errors before the scenario
  Load load;
  std::vector<ProcessSpec> processes;
  std::vector<Event> events;
};

struct Scenario {
  std::string about;
  std::string driver = "580.95.05", cuda = "13.0";
  nvml::Return init = nvml::Return::success;
  bool may_change = true;             // false: setters answer no_permission
  bool wide_process_entries = false;  // as drivers 535.43 to 535.86
  std::vector<std::string> missing;   // functions this driver does not have
  std::vector<GpuSpec> gpus;
  std::vector<Event> events;  // of the library: hang, slow, fail
};

// Throws sluice::Error, invalid_argument, naming the place.
Scenario parse_scenario(std::string_view json_text);

// The code with NVML's own name, such as "GPU_IS_LOST"; throws as parse_scenario does.
nvml::Return return_code(const std::string& name, const std::string& where);

}  // namespace sluice::fake
