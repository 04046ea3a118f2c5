// GPU memory limits that NVIDIA's driver enforces on the processes of a control group.
#pragma once

#include <cstdint>
#include <string>

#include "device/nvml/nvml.h"

namespace sluice::device {

// Sets the limit and reads it back. Empty when the driver then says that it refuses past
// `bytes`; else why that is not so. Takes root and a driver of r615 or later, and as long as
// the driver takes.
std::string limit_memory(const Nvml& nvml, const std::string& uuid, const std::string& group,
                         std::uint64_t bytes);

}  // namespace sluice::device
