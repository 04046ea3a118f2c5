// The order in which output tiles are computed: along the columns of some rows, then the next rows.
#pragma once

#include "kernels/gemm/gemm_epilogue.h"

namespace sluice::kernels::cuda {

// The first row and column of an output tile.
struct TileCoord {
  int row, column;
};
template <class S>
__device__ TileCoord tile_coord(const GemmEpilogue& f, unsigned tile) {
  const unsigned across = (static_cast<unsigned>(f.n) + S::kColumns - 1) / S::kColumns;
  return {static_cast<int>(tile / across * S::kRows),
          static_cast<int>(tile % across * S::kColumns)};
}

template <class S>
unsigned tile_count(const GemmEpilogue& f) {
  return static_cast<unsigned>((f.rows + S::kRows - 1) / S::kRows *
                               ((f.n + S::kColumns - 1) / S::kColumns));
}

}  // namespace sluice::kernels::cuda
