// Reductions over all threads of a block, whose result all threads get. The order of a sum depends
// on the number of threads alone. Blocks have at most 32 warps, all of them complete.
#pragma once

#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

template <class Combine>
__device__ float block_reduce(float x, float identity, const Combine& combine) {
  __shared__ float parts[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(kAllLanes, x, step));
  if (warps == 1) return x;
  __syncthreads();  // the parts of the previous call have been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  float all = identity;
  for (int i = 0; i < warps; ++i) all = combine(all, parts[i]);
  return all;
}

__device__ inline float block_sum(float x) {
  return block_reduce(x, 0.0f, [](float a, float b) { return a + b; });
}
__device__ inline float block_max(float x) {
  return block_reduce(x, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace sluice::kernels::cuda
