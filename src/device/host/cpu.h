// The CPU of this machine and the part of it we may use.
#pragma once

#include "device/gpu.h"
#include "device/sysfs.h"

namespace sluice::device {

// Reads /proc and /sys below `root`, so a test can hand in a recorded tree. What
// cannot be read keeps its default; at least one usable core is always reported.
// Never throws for what it finds. Thread-safe.
Cpu detect_cpu(const Path& root = "/");

}  // namespace sluice::device
