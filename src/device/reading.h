// The latest readings of one device. Each value knows when it was taken; a
// value that could not be read is absent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "device/metric.h"

namespace sluice::device {

struct Timed {
  double value;
  Instant at;
};

struct Process {
  std::int64_t pid;
  std::string name;  // from /proc, empty when gone
  std::string user;
  std::string kind;                       // "compute", "graphics", "mps"
  std::optional<std::uint64_t> memory;    // bytes; absent where the driver does not report it
  std::optional<double> utilization;      // % of SM time
  std::optional<double> memory_activity;  // %
};

struct Xid {
  unsigned code;
  Instant at;
  WallTime wall;
};

class Readings {
 public:
  void set(Metric m, double value, Instant at) { values_[index(m)] = Timed{value, at}; }
  void clear(Metric m) { values_[index(m)].reset(); }
  const std::optional<Timed>& at(Metric m) const { return values_[index(m)]; }
  std::optional<double> value(Metric m) const {
    const auto& v = at(m);
    return v ? std::optional(v->value) : std::nullopt;
  }

  std::vector<Process> processes;
  std::optional<Instant> processes_at;

 private:
  static std::size_t index(Metric m) { return static_cast<std::size_t>(m); }
  std::array<std::optional<Timed>, kMetricCount> values_;
};

// Names of the set bits of Metric::throttle_reasons that mean the clock is held
// back ("thermal slowdown", "power cap"); idle and user-set clocks are not faults.
std::vector<std::string_view> throttle_names(std::uint64_t bits);
bool is_thermal_or_power_throttle(std::uint64_t bits) noexcept;

}  // namespace sluice::device
