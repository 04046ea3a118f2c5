// The innermost part of products and convolutions: rows times panels of weights, in the
// processor's own vector width, with what follows done while the sums are at hand.
#pragma once

#include <cstdint>

#include "kernels/common/epilogue.h"

namespace sluice::kernels::cpu {

// A tile of sums stays in registers: this many rows at most, by one panel's columns.
struct TileShape {
  int rows, columns;
};
TileShape tile_shape();

inline constexpr int kMostTileRows = 6;
inline constexpr int kMostTileColumns = 64;

// c = finish(start + a * b), for all rows by some panels. Each sum is made in the order of k,
// one multiply-add at a time, so it does not depend on how rows, columns and k are split.
struct TileBlock {
  // Row r of a is `segments` runs of `depth` values; run s begins at rows[s * count + r] + offset.
  const float* const* rows;
  std::int64_t count, segments, depth, offset;

  // Panels: rows of tile_shape().columns values, one row for each value of a's rows. The next
  // panel begins `panel_step` further; the last has zeros behind the columns there are.
  const float* panels;
  std::int64_t panel_step, columns;

  float* c;
  std::int64_t c_row;  // from a row to the next, of residual too

  // Sums start from bias (as long as the panels) and residual (null: none) where the block
  // begins k, and from c where it goes on.
  bool begins = true, ends = true;
  const float* bias = nullptr;
  const float* residual = nullptr;
  Epilogue epilogue{};          // where it ends
  const float* last = nullptr;  // added after the epilogue; null: nothing

  // Panels that are probably read next: they are brought nearer meanwhile.
  const float* ahead = nullptr;
  std::int64_t ahead_values = 0;
};

void run(const TileBlock& block);

}  // namespace sluice::kernels::cpu
