// The tile size of the CPU GEMMs, and tables of their tile kernels. Included again for each
// instruction set, as math-inl.h is.
#include <hwy/highway.h>

#include <utility>

#include "kernels/common/lanes-inl.h"

#if defined(SLUICE_KERNELS_GEMM_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_GEMM_PANEL_INL_H_
#undef SLUICE_KERNELS_GEMM_PANEL_INL_H_
#else
#define SLUICE_KERNELS_GEMM_PANEL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

// Six rows by two vectors leave four of sixteen registers for operands. With 32 registers it is six
// by four: twelve by two ran out of address registers and was a tenth slower.
constexpr int kVectors = kLanes == 16 ? 4 : 2;  // of a panel's row
constexpr int kColumns = kVectors * kLanes;
constexpr int kRows = 6;

// Constant indices, which keep arrays in registers.
template <int N>
using Upto = std::make_integer_sequence<int, N>;

// The tile kernel of `rows` rows, 1 to kRows, by kWide vectors: one of Kernels::kTile<high, wide>,
// which are of type Kernels::Tile.
template <class Kernels, int kWide, int... R>
typename Kernels::Tile tile_among(int rows, std::integer_sequence<int, R...>) {
  static constexpr typename Kernels::Tile kTiles[] = {Kernels::template kTile<R + 1, kWide>...};
  return kTiles[rows - 1];
}
// The same for a number of vectors, 1 to kVectors.
template <class Kernels, int... W>
typename Kernels::Tile tile_of(int rows, int vectors, std::integer_sequence<int, W...>) {
  typename Kernels::Tile found = nullptr;
  ((vectors == W + 1 ? void(found = tile_among<Kernels, W + 1>(rows, Upto<kRows>())) : void()),
   ...);
  return found;
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
