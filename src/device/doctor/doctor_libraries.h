// The NVIDIA libraries Sluice opens at run time, and which versions are here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/doctor/doctor.h"

namespace sluice::device {

// Each is opened, its version is read, and it stays open (they do not close cleanly).
// `dirs` are looked in after the loader's own places.
std::vector<LibraryFacts> find_libraries(std::span<const std::string> dirs);

// The version in the name of the file behind libnvidia-ml.so.1, "" when it is not
// loaded or is not named so.
std::string nvml_file_version();

}  // namespace sluice::device
