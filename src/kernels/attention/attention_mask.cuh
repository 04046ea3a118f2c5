// Masks that are the same for all heads and queries, by blocks of keys: blocks that are masked out
// for a complete sequence are skipped, and blocks that the mask does not change do not read it.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/common/element.cuh"

namespace sluice::kernels::cuda {

inline constexpr int kKeys = 64;  // of a block
inline constexpr int kMaxWarps = 4;
inline constexpr float kLog2E = 1.4426950408889634f;
// Keys whose mask is below the largest by this much get a weight of 0.
inline constexpr float kMaskedOut = 9000.0f * kLog2E;

// Where the mask of a block of keys is read: nowhere, in shared memory, in global memory.
enum MaskMode { kNoMask, kSharedMask, kGlobalMask };

// One element of a mask times log2(e). The lowest finite values stay finite.
template <class T>
__device__ float mask_at(const AttentionCall& call, std::int64_t at) {
  const float value = call.mask_is_f32 ? static_cast<const float*>(call.mask)[at]
                                       : wide(static_cast<const T*>(call.mask)[at]);
  return value < -2e38f && value > -INFINITY ? -2e38f * kLog2E : value * kLog2E;
}

// Copies the mask of a sequence to shared memory; finds the maximum and the mode of each block.
template <class T>
__device__ void load_mask(const AttentionCall& call, int sequence, int key_blocks,
                          float* shared_mask, float* mask_max, int* modes) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32;
  for (int key = thread; key < key_blocks * kKeys; key += threads)
    shared_mask[key] = key < call.keys
                           ? mask_at<T>(call, sequence * call.mask_batch + key * call.mask_key)
                           : -INFINITY;
  __syncthreads();
  for (int i = thread / 32; i < key_blocks; i += threads / 32) {
    const float a = shared_mask[i * kKeys + lane], b = shared_mask[i * kKeys + lane + 32];
    const float top = warp_max(fmaxf(a, b));
    const bool is_zero = __all_sync(kAllLanes, a == 0 && b == 0) != 0;
    if (lane == 0) mask_max[i] = top, modes[i] = is_zero && call.scale > 0 ? kNoMask : kSharedMask;
  }
  __syncthreads();
}

// Lists the key blocks to read, each as block * 4 + mode. Returns how many there are.
template <class T>
__device__ int list_key_blocks(const AttentionCall& call, int sequence, bool use_shared_mask,
                               int key_blocks, int* blocks_to_read, float* mask_max,
                               float* shared_mask) {
  __shared__ int count;
  if (use_shared_mask)
    load_mask<T>(call, sequence, key_blocks, shared_mask, mask_max, blocks_to_read);
  if (threadIdx.x == 0) {
    float top = -INFINITY;
    for (int i = 0; use_shared_mask && i < key_blocks; ++i) top = fmaxf(top, mask_max[i]);
    int n = 0;
    for (int i = 0; i < key_blocks; ++i) {
      const bool complete = (i + 1) * kKeys <= call.keys;
      int mode = complete && call.mask == nullptr && call.scale > 0 ? kNoMask : kGlobalMask;
      if (use_shared_mask) {
        // The difference of equal masks is 0, however low they are.
        if (top > -INFINITY && top - mask_max[i] >= kMaskedOut) continue;
        mode = blocks_to_read[i];  // read before it is overwritten: n <= i
      }
      blocks_to_read[n++] = i * 4 + mode;
    }
    count = n;
  }
  __syncthreads();
  return count;
}

}  // namespace sluice::kernels::cuda
