// Functions of the driver, found at run time: the program links no libcuda, so that it starts on
// machines without one. CUDA builds only.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"
#include "device/cuda/check.h"

namespace sluice::device {

// Throws unavailable where the driver lacks it.
template <class Function>
void find_in_driver(Function& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  if (found == nullptr)
    throw Error(Code::unavailable, std::string("the driver has no ") + name + ": it is too old");
  function = reinterpret_cast<Function>(found);
}

}  // namespace sluice::device
