// Kernel launches on the stream of LaunchArgs.
#pragma once

#include "device/cuda/launch.cuh"
#include "kernels/common/launch_args.h"

namespace sluice::kernels::cuda {

using device::Grid;
using device::launch;

// Multiprocessors of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

inline cudaStream_t stream_of(const LaunchArgs& args) {
  return static_cast<cudaStream_t>(args.stream);
}

}  // namespace sluice::kernels::cuda
