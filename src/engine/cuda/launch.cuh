// Launches for kernels of the engine, whose stream comes with their arguments.
#pragma once

#include "device/launch.cuh"
#include "engine/kernel.h"

namespace sluice::engine::cuda {

using device::Grid;
using device::launch;

inline cudaStream_t stream_of(const KernelArgs& args) {
  return static_cast<cudaStream_t>(args.stream);
}

}  // namespace sluice::engine::cuda
