// One look at the whole machine: every vendor's GPUs and the CPU.
#pragma once

#include <chrono>
#include <string>

#include "device/demo/demo.h"
#include "device/gpu.h"
#include "device/sysfs.h"

namespace sluice::device {

struct DetectOptions {
  Path root = "/";   // of /proc and /sys; no vendor library is opened for another one
  std::string demo;  // a scenario: its GPUs stand in for this machine's
  DemoOptions demo_options;
  std::chrono::milliseconds timeout = std::chrono::seconds(20);  // with the NVIDIA driver
};

// A source that cannot be read becomes a note and hides nothing else. Throws only
// invalid_argument, for an unknown scenario. A driver that hangs is a note too; the
// thread that asked it stays behind (see driver_timeout.h).
Inventory detect(const DetectOptions& options = {});

}  // namespace sluice::device
