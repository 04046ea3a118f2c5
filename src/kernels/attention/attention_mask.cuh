// What a mask that is the same for all heads and queries means for stretches of keys: some are
// shut out for a whole entry of the batch, some are left alone.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

inline constexpr int kKeys = 64;  // at a time
inline constexpr int kMostWarps = 4;
inline constexpr float kLog2E = 1.4426950408889634f;
// What is below the largest of a mask by this much weighs nothing.
inline constexpr float kShutOut = 9000.0f * kLog2E;

// How scores of a stretch of keys meet the mask.
enum Meet { kLeftAlone, kKeptMask, kReadMask };

// One element of a mask, in powers of two. The least finite values stay finite.
template <class T>
__device__ float mask_at(const AttentionCall& call, std::int64_t at) {
  const float value = call.mask_is_f32 ? static_cast<const float*>(call.mask)[at]
                                       : wide(static_cast<const T*>(call.mask)[at]);
  return value < -2e38f && value > -INFINITY ? -2e38f * kLog2E : value * kLog2E;
}

// The mask of an entry of the batch to shared memory, and what it says of each stretch.
template <class T>
__device__ void keep_mask(const AttentionCall& call, int entry, int stretches, float* kept,
                          float* most, int* meets) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  for (int key = thread; key < stretches * kKeys; key += threads)
    kept[key] = key < call.keys ? mask_at<T>(call, entry * call.mask_batch + key * call.mask_key)
                                : -INFINITY;
  __syncthreads();
  for (int i = thread / 32; i < stretches; i += threads / 32) {
    const float a = kept[i * kKeys + lane], b = kept[i * kKeys + lane + 32];
    const float top = warp_max(fmaxf(a, b));
    const bool alone = __all_sync(kAllLanes, a == 0 && b == 0) != 0;
    if (lane == 0) most[i] = top, meets[i] = alone && call.scale > 0 ? kLeftAlone : kKeptMask;
  }
  __syncthreads();
}

// The stretches to read, one after the other, with how each meets the mask in the low two
// bits; returns how many.
template <class T>
__device__ int list_stretches(const AttentionCall& call, int entry, bool keeps, int stretches,
                              int* list, float* most, float* kept) {
  __shared__ int count;
  if (keeps) keep_mask<T>(call, entry, stretches, kept, most, list);
  if (threadIdx.x == 0) {
    float top = -INFINITY;
    for (int i = 0; keeps && i < stretches; ++i) top = fmaxf(top, most[i]);
    int n = 0;
    for (int i = 0; i < stretches; ++i) {
      const bool whole = (i + 1) * kKeys <= call.keys;
      int meet = whole && call.mask == nullptr && call.scale > 0 ? kLeftAlone : kReadMask;
      if (keeps) {
        if (top > -INFINITY && most[i] <= top - kShutOut) continue;
        meet = list[i];  // read before it is written over: n <= i
      }
      list[n++] = i * 4 + meet;
    }
    count = n;
  }
  __syncthreads();
  return count;
}

}  // namespace sluice::kernels::cuda
