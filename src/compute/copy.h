// Items of one byte from the first input to the first output: how fast memory can be moved.
#pragma once

#include "compute/operation.h"

namespace sluice::compute {

const Operation& copy_operation();

// Its function on the GPU, in cuda_accelerator.cc; null in a build without CUDA.
using GpuFunction = void (*)(const Call&, LaunchContext&);
GpuFunction copy_gpu_function();

}  // namespace sluice::compute
