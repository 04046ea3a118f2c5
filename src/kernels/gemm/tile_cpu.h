// The GEMM micro-kernel on the CPU: rows times panels of weights in the vector width of the
// processor, with the epilogue applied while the accumulators are in cache.
#pragma once

#include <cstdint>

#include "kernels/common/activation_params.h"

namespace sluice::kernels::cpu {

// A tile whose accumulators stay in registers: the maximum of rows, and the columns of a panel.
struct TileShape {
  int rows, columns;
};
TileShape tile_shape();

inline constexpr int kMaxTileRows = 6;
inline constexpr int kMaxTileColumns = 64;

// c = epilogue(start + a * b) for all rows by some panels. Each sum runs in the order of k, one FMA
// at a time, so it does not depend on how rows, columns and k are split.
struct TileBlock {
  // Row r of a is `segments` runs of `depth` values; run s begins at rows[s * count + r] + offset.
  const float* const* rows;
  std::int64_t count, segments, depth, offset;

  // Panels: rows of tile_shape().columns values, one row for each value along k. The next panel
  // begins `panel_step` further; the last one is padded with zeros.
  const float* panels;
  std::int64_t panel_step, columns;

  float* c;
  std::int64_t c_row;  // row stride of c, residual and last

  // Accumulators start from bias (padded to whole panels) and residual (null: none) where the block
  // begins k, and from c where it continues.
  bool begins = true, ends = true;
  const float* bias = nullptr;
  const float* residual = nullptr;
  ActivationParams activation{};  // applied where the block ends k
  const float* last = nullptr;    // added after the epilogue; null: none

  // Panels that are probably read next, to prefetch.
  const float* ahead = nullptr;
  std::int64_t ahead_values = 0;
};

void run(const TileBlock& block);

}  // namespace sluice::kernels::cpu
