// Register tiles: kLanes bars of kLanes segments on their way between memory, where segments are
// rows, and registers, where bars are vectors. Shuffles have one port, loads and stores two: half
// rows are therefore joined as they are loaded and split as they are stored, which saves a round of
// shuffles. Included once per instruction set.
#include "market/indicators/cpu/simd_value-inl.h"

#if defined(SLUICE_MARKET_TRANSPOSE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#undef SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#else
#define SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// The first row of pair j of a tile that is stored; the other is two rows further on.
constexpr int row_of_pair(int j) { return j + (j & 2); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE Vec load_halves(const double* lower, const double* upper) {
  const hn::Half<D> half;
  return hn::Combine(D(), hn::LoadU(half, upper), hn::LoadU(half, lower));
}

// Stores the first and the last bars of two rows. The halves of a row are stored one after the
// other: a cache takes two stores at once when they go to the same line.
HWY_INLINE void store_pair(Vec first, Vec last, double* row, double* other) {
  const hn::Half<D> half;
  hn::StoreU(hn::LowerHalf(half, first), half, row);
  hn::StoreU(hn::LowerHalf(half, last), half, row + kLanes / 2);
  hn::StoreU(hn::UpperHalf(half, first), half, other);
  hn::StoreU(hn::UpperHalf(half, last), half, other + kLanes / 2);
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// tile[i] becomes bar i of the rows.
HWY_INLINE void load_rows(const double* const* rows, Vec* tile) {
  const D d;
  HWY_UNROLL(2)
  for (int i = 0; i < kLanes; i += 4) {
    const Vec a = load_halves(rows[0] + i, rows[2] + i), b = load_halves(rows[1] + i, rows[3] + i);
    const Vec e = load_halves(rows[4] + i, rows[6] + i), f = load_halves(rows[5] + i, rows[7] + i);
    const Vec even = hn::InterleaveLower(d, a, b), more_even = hn::InterleaveLower(d, e, f);
    const Vec odd = hn::InterleaveUpper(d, a, b), more_odd = hn::InterleaveUpper(d, e, f);
    tile[i] = Vec{_mm512_shuffle_f64x2(even.raw, more_even.raw, 0x88)};
    tile[i + 1] = Vec{_mm512_shuffle_f64x2(odd.raw, more_odd.raw, 0x88)};
    tile[i + 2] = Vec{_mm512_shuffle_f64x2(even.raw, more_even.raw, 0xDD)};
    tile[i + 3] = Vec{_mm512_shuffle_f64x2(odd.raw, more_odd.raw, 0xDD)};
  }
}

// Turns a tile of bars into the operands of store_pair(): tile[j] and tile[j + kLanes / 2] are pair
// j.
HWY_INLINE void split_register_tile(Vec* tile) {
  const D d;
  const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  HWY_UNROLL(2)
  for (int i = 0; i < kLanes; i += 4) {
    const Vec even = hn::InterleaveLower(d, tile[i], tile[i + 1]);
    const Vec odd = hn::InterleaveUpper(d, tile[i], tile[i + 1]);
    const Vec more_even = hn::InterleaveLower(d, tile[i + 2], tile[i + 3]);
    const Vec more_odd = hn::InterleaveUpper(d, tile[i + 2], tile[i + 3]);
    tile[i] = Vec{_mm512_permutex2var_pd(even.raw, lower, more_even.raw)};
    tile[i + 1] = Vec{_mm512_permutex2var_pd(odd.raw, lower, more_odd.raw)};
    tile[i + 2] = Vec{_mm512_permutex2var_pd(even.raw, upper, more_even.raw)};
    tile[i + 3] = Vec{_mm512_permutex2var_pd(odd.raw, upper, more_odd.raw)};
  }
}
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
HWY_INLINE void load_rows(const double* const* rows, Vec* tile) {
  for (int i = 0; i < kLanes; i += 2) {
    const Vec a = load_halves(rows[0] + i, rows[2] + i), b = load_halves(rows[1] + i, rows[3] + i);
    tile[i] = hn::InterleaveLower(D(), a, b);
    tile[i + 1] = hn::InterleaveUpper(D(), a, b);
  }
}

HWY_INLINE void split_register_tile(Vec* tile) {
  for (int i = 0; i < kLanes; i += 2) {
    const Vec a = tile[i], b = tile[i + 1];
    tile[i] = hn::InterleaveLower(D(), a, b);
    tile[i + 1] = hn::InterleaveUpper(D(), a, b);
  }
}
#else
HWY_INLINE void load_rows(const double* const* rows, Vec* tile) {
  for (int l = 0; l < kLanes; ++l) tile[l] = hn::LoadU(D(), rows[l]);
  transpose(tile);
}

HWY_INLINE void split_register_tile(Vec* tile) { transpose(tile); }

HWY_INLINE void store_pair(Vec first, Vec last, double* row, double* other) {
  hn::StoreU(first, D(), row);
  hn::StoreU(last, D(), other);
}
#endif

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
