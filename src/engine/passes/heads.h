// Values that are split into heads, and where they come from.
#pragma once

#include "engine/passes/match.h"

namespace sluice::engine {

// Orders of [batch, length, heads, size]: as queries and values are multiplied, and as keys are.
inline const Order kHeadsFirst{0, 2, 1, 3}, kHeadsFirstFlipped{0, 2, 3, 1};

struct Heads {
  ValueId from = kNoValue;   // [batch, length, heads * size], or as many rows; none: only `whole`
  ValueId whole = kNoValue;  // what this is a third of along the last axis, if it is
  int part = -1;             // and which
  std::int64_t batch = 0, length = 0, count = 0, size = 0;
  float scale = 1;  // what they are multiplied by on the way

  Shape shape() const { return {batch, length, count * size}; }
};

// Of a value with four axes that Reshape and a Transpose of order `want` made, perhaps scaled.
std::optional<Heads> read_heads(const Editor& edit, ValueId value, const Order& want);

// Goes back over what only scales.
ValueId unscaled(const Editor& edit, ValueId value, float& scale);

}  // namespace sluice::engine
