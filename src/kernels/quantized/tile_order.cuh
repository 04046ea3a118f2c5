// Tiles that products of small numbers are made in: all columns of some rows, then of the next.
#pragma once

#include "kernels/quantized/int8_gemm.h"

namespace sluice::kernels::cuda {

// Where a tile is.
struct SmallPlace {
  int row, column;
};
template <class S>
__device__ SmallPlace small_place(const SmallFinish& f, unsigned tile) {
  const unsigned across = (static_cast<unsigned>(f.n) + S::kColumns - 1) / S::kColumns;
  return {static_cast<int>(tile / across * S::kRows),
          static_cast<int>(tile % across * S::kColumns)};
}

template <class S>
unsigned tiles_of(const SmallFinish& f) {
  return static_cast<unsigned>((f.rows + S::kRows - 1) / S::kRows *
                               ((f.n + S::kColumns - 1) / S::kColumns));
}

}  // namespace sluice::kernels::cuda
