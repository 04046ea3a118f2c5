// Reads the limits of our control groups, so that a container's two cores are
// not taken for the host's sixty-four.
//
// Versions 1 and 2 and the hybrid of both are read. Every group from ours up to
// the mount's root is asked and the tightest answer counts: a limit set on a
// parent binds its children although their own files say "max". In a cgroup
// namespace, or where only our own group is mounted, the walk ends at what can be
// seen; limits set above that cannot be known from inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/sysfs.h"

namespace sluice::device {

struct CgroupLimits {
  int version = 0;  // 2, 1 (hybrid counts as 1 when that is where the limits are), 0 for none
  std::optional<double> cpus;                // quota / period
  std::optional<double> cpu_used_s;          // CPU time so far, of the group that has the quota
  std::string cpuset;                        // "0-3"; empty when nothing restricts it
  std::optional<std::uint64_t> memory;       // bytes, hard limit
  std::optional<std::uint64_t> memory_used;  // bytes, of the group that has the limit, without
                                             // file cache that the kernel would give up first
};

// Cheap enough for every sample (about ten small files). Thread-safe.
CgroupLimits read_cgroup(const Path& root = "/");

}  // namespace sluice::device
