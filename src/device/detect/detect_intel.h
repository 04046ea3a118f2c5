// Intel GPUs, from sysfs (i915 and xe).
#pragma once

#include "device/detect/found.h"
#include "device/sysfs.h"

namespace sluice::device {

// Never throws for what it finds. Thread-safe.
Found detect_intel(const Path& root = "/");

}  // namespace sluice::device
