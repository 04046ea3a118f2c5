// The sums of a block of samples, added in the same order every time.
#pragma once

#include "market/montecarlo/estimate.h"

namespace sluice::market {

inline constexpr int kSumCount = sizeof(BlockSums) / sizeof(double);

__device__ inline void add(BlockSums& s, double x, double c) {
  s.count += 1;
  s.x += x;
  s.xx += x * x;
  s.c += c;
  s.cc += c * c;
  s.xc += x * c;
}

// Called by all threads of the block; thread 0 writes.
template <int kThreads>
__device__ void reduce(const BlockSums& mine, BlockSums* out) {
  __shared__ double sums[kSumCount][kThreads / 32];
  double s[kSumCount] = {mine.count, mine.x, mine.xx, mine.c, mine.cc, mine.xc};
#pragma unroll
  for (int j = 0; j < kSumCount; ++j) {
    for (int apart = 16; apart > 0; apart /= 2) s[j] += __shfl_down_sync(~0u, s[j], apart);
    if (threadIdx.x % 32 == 0) sums[j][threadIdx.x / 32] = s[j];
  }
  __syncthreads();
  if (threadIdx.x >= kSumCount) return;
  double total = 0;
  for (int w = 0; w < kThreads / 32; ++w) total += sums[threadIdx.x][w];
  reinterpret_cast<double*>(out)[threadIdx.x] = total;
}

}  // namespace sluice::market
