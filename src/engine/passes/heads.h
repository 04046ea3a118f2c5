// Recognizes values that are split into attention heads.
#pragma once

#include "engine/passes/match.h"

namespace sluice::engine {

// Permutations of [batch, length, heads, size]: for queries and values, and for transposed keys.
inline const Order kHeadsFirst{0, 2, 1, 3}, kHeadsFirstTransposed{0, 2, 3, 1};

struct Heads {
  ValueId from = kNoValue;  // [batch, length, heads * size], or as rows; none: only `packed_qkv`
  ValueId packed_qkv = kNoValue;  // the packed Q, K, V this is one third of along the last axis
  int qkv_index = -1;             // 0: Q, 1: K, 2: V
  std::int64_t batch = 0, length = 0, count = 0, size = 0;
  float scale = 1;  // accumulated scale

  Shape shape() const { return {batch, length, count * size}; }
};

// Matches a value with four axes produced by Reshape and a Transpose of order `want`, perhaps
// scaled.
std::optional<Heads> read_heads(const GraphEditor& edit, ValueId value, const Order& want);

// Skips scaling nodes backwards, and multiplies `scale` by their factors.
ValueId unscaled(const GraphEditor& edit, ValueId value, float& scale);

}  // namespace sluice::engine
