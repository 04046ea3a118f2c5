// Elements on the device. 16-bit floats are converted to float for arithmetic.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace sluice::kernels::cuda {

// The dynamic shared memory of a block.
extern __shared__ __align__(16) unsigned char shared_bytes[];

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(__half x) { return __half2float(x); }
__device__ inline float wide(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// N elements that are loaded and stored as one vector.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

// Reductions over the lanes of a warp, in a fixed order.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

}  // namespace sluice::kernels::cuda
