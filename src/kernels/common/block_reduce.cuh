// What all threads of a block find out together. The order of each sum depends on the number
// of threads alone. At most 32 warps; blocks are of whole warps.
#pragma once

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

template <class Join>
__device__ float block_joined(float x, float none, const Join& join) {
  __shared__ float parts[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(kAllLanes, x, step));
  if (warps == 1) return x;
  __syncthreads();  // whoever reads the parts of the call before is through
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  float all = none;
  for (int i = 0; i < warps; ++i) all = join(all, parts[i]);
  return all;
}

__device__ inline float block_sum(float x) {
  return block_joined(x, 0.0f, [](float a, float b) { return a + b; });
}
__device__ inline float block_max(float x) {
  return block_joined(x, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace sluice::kernels::cuda
