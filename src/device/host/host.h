// CPU utilization and memory use of this machine, from /proc and /sys: those of our control
// group where one limits us, those of the whole machine otherwise.
#pragma once

#include <optional>

#include "base/clock.h"
#include "device/gpu.h"
#include "device/host/cgroup.h"
#include "device/reading.h"
#include "device/sysfs.h"

namespace sluice::device {

// Reads below `root`, so a test can hand in a tree. Not thread-safe.
class HostSampler {
 public:
  explicit HostSampler(Cpu cpu, Path root = "/");

  // Sets the metrics of Scope::cpu that can be read now and clears the others.
  // Utilisation needs two calls: the first has none.
  void sample(Readings& readings, Instant now);

 private:
  struct Busy {
    double busy_s, capacity;  // capacity: cores that could have been busy
    Instant at;
  };
  std::optional<Busy> busy(const CgroupLimits& group, Instant now) const;
  void sample_cpu(const CgroupLimits& group, Readings& readings, Instant now);
  void sample_memory(const CgroupLimits& group, Readings& readings, Instant now) const;
  std::optional<Path> find_thermometer() const;

  Cpu cpu_;
  Path root_;
  std::optional<Busy> before_;
  std::optional<Path> thermometer_;  // a file in thousandths of a degree
};

}  // namespace sluice::device
