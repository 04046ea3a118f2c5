// NVIDIA GPUs as NVML describes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/gpu.h"
#include "device/nvml/nvml.h"

namespace sluice::device {

// Every GPU that answers, ordered by bus. One that does not is a sentence in
// `notes` and does not hide the others; so is a machine with none. A fact the
// driver does not report is absent. Blocks as long as the driver does.
std::vector<Gpu> detect_nvidia(const Nvml& nvml, std::vector<std::string>& notes);

// One GPU, from its handle. Throws unavailable when it does not even report its UUID.
Gpu describe_nvidia(const Nvml& nvml, nvml::Device device);

// Returns whether a failure to open NVML is a fault. A library that came with some package does
// not make a driver, and a card that a container was not given is none of its business:
// both are needed.
bool has_nvidia_driver();

// Explains the failure for the `cards` of the machine, by bus: "NVIDIA: the GPU at … cannot
// be used: …".
std::string unusable_nvidia(const std::vector<std::string>& cards, std::string_view reason);

// The precision for a card outside the catalogue, from its compute capability.
PrecisionChoice recommend_for_capability(int major, int minor) noexcept;

}  // namespace sluice::device
