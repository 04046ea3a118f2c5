// The GPUs that one vendor's detection found, and the problems it met.
#pragma once

#include <string>
#include <vector>

#include "device/gpu.h"

namespace sluice::device {

struct Found {
  std::vector<Gpu> gpus;
  std::vector<std::string> notes;   // sentences for people, the vendor's name first
  std::string driver_trouble = {};  // why a driver that is installed does not start; else empty
  bool has_all = true;              // false: GPUs that are here have not described themselves yet
};

}  // namespace sluice::device
