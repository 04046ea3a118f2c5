// Launches of Hopper kernels before the previous kernel has ended.
#pragma once

#include "kernels/common/launch.cuh"

namespace sluice::kernels::cuda {

// `starts_early`: programmatic dependent launch; the kernel waits by itself for those before it in
// the stream.
template <class... Params, class... Args>
void launch_dependent(device::On on, Grid grid, bool starts_early, void (*kernel)(Params...),
                      Args... args) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = on.stream;
  config.attrs = &early;
  config.numAttrs = starts_early ? 1 : 0;
  device::check(cudaLaunchKernelEx(&config, kernel, args...), on.where);
}

}  // namespace sluice::kernels::cuda
