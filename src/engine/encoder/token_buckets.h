// The buckets of tokens that a GPU's programs are compiled for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::engine {

inline constexpr std::int64_t kMaxBucketTokens = 163'840, kMaxBucketSequences = 4096;

// At most 64, each at most an eighth above the one before, in steps of 128: the rows of a GEMM's
// tile.
inline std::vector<std::int64_t> token_buckets() {
  constexpr std::int64_t kStep = 128;
  std::vector<std::int64_t> buckets{kStep};
  while (buckets.back() < kMaxBucketTokens) {
    const std::int64_t next = std::max(buckets.back() + kStep, buckets.back() * 9 / 8);
    buckets.push_back(std::min(kMaxBucketTokens, (next + kStep - 1) / kStep * kStep));
  }
  return buckets;
}

}  // namespace sluice::engine
