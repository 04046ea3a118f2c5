// Squares of kLanes bars of kLanes segments on their way between memory, where segments are rows,
// and registers, where bars are vectors. Where shuffles have one port and loads and stores
// two, halves of rows are joined as they are loaded and parted as they are stored, so that a
// round of shuffles less does. Included once per instruction set.
#include "market/indicators/cpu/simd_value-inl.h"

#if defined(SLUICE_MARKET_TRANSPOSE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#undef SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#else
#define SLUICE_MARKET_TRANSPOSE_TILES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// Pair j of a square that goes out is of this row and the one two further on.
constexpr int row_of_pair(int j) { return j + (j & 2); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE Vec load_halves(const double* lower, const double* upper) {
  const hn::Half<D> half;
  return hn::Combine(D(), hn::LoadU(half, upper), hn::LoadU(half, lower));
}

// The first and the last bars of two rows. Those of a row are stored one after the other:
// a cache takes two at once where they go to the same line.
HWY_INLINE void store_pair(Vec first, Vec last, double* row, double* other) {
  const hn::Half<D> half;
  hn::StoreU(hn::LowerHalf(half, first), half, row);
  hn::StoreU(hn::LowerHalf(half, last), half, row + kLanes / 2);
  hn::StoreU(hn::UpperHalf(half, first), half, other);
  hn::StoreU(hn::UpperHalf(half, last), half, other + kLanes / 2);
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// square[i] is bar i of the rows.
HWY_INLINE void load_rows(const double* const* rows, Vec* square) {
  const D d;
  HWY_UNROLL(2)
  for (int i = 0; i < kLanes; i += 4) {
    const Vec a = load_halves(rows[0] + i, rows[2] + i), b = load_halves(rows[1] + i, rows[3] + i);
    const Vec e = load_halves(rows[4] + i, rows[6] + i), f = load_halves(rows[5] + i, rows[7] + i);
    const Vec even = hn::InterleaveLower(d, a, b), more_even = hn::InterleaveLower(d, e, f);
    const Vec odd = hn::InterleaveUpper(d, a, b), more_odd = hn::InterleaveUpper(d, e, f);
    square[i] = Vec{_mm512_shuffle_f64x2(even.raw, more_even.raw, 0x88)};
    square[i + 1] = Vec{_mm512_shuffle_f64x2(odd.raw, more_odd.raw, 0x88)};
    square[i + 2] = Vec{_mm512_shuffle_f64x2(even.raw, more_even.raw, 0xDD)};
    square[i + 3] = Vec{_mm512_shuffle_f64x2(odd.raw, more_odd.raw, 0xDD)};
  }
}

// Square of bars to what store_pair() takes: square[j] and square[j + kLanes / 2] are pair j.
HWY_INLINE void part_square(Vec* square) {
  const D d;
  const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  HWY_UNROLL(2)
  for (int i = 0; i < kLanes; i += 4) {
    const Vec even = hn::InterleaveLower(d, square[i], square[i + 1]);
    const Vec odd = hn::InterleaveUpper(d, square[i], square[i + 1]);
    const Vec more_even = hn::InterleaveLower(d, square[i + 2], square[i + 3]);
    const Vec more_odd = hn::InterleaveUpper(d, square[i + 2], square[i + 3]);
    square[i] = Vec{_mm512_permutex2var_pd(even.raw, lower, more_even.raw)};
    square[i + 1] = Vec{_mm512_permutex2var_pd(odd.raw, lower, more_odd.raw)};
    square[i + 2] = Vec{_mm512_permutex2var_pd(even.raw, upper, more_even.raw)};
    square[i + 3] = Vec{_mm512_permutex2var_pd(odd.raw, upper, more_odd.raw)};
  }
}
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
HWY_INLINE void load_rows(const double* const* rows, Vec* square) {
  for (int i = 0; i < kLanes; i += 2) {
    const Vec a = load_halves(rows[0] + i, rows[2] + i), b = load_halves(rows[1] + i, rows[3] + i);
    square[i] = hn::InterleaveLower(D(), a, b);
    square[i + 1] = hn::InterleaveUpper(D(), a, b);
  }
}

HWY_INLINE void part_square(Vec* square) {
  for (int i = 0; i < kLanes; i += 2) {
    const Vec a = square[i], b = square[i + 1];
    square[i] = hn::InterleaveLower(D(), a, b);
    square[i + 1] = hn::InterleaveUpper(D(), a, b);
  }
}
#else
HWY_INLINE void load_rows(const double* const* rows, Vec* square) {
  for (int l = 0; l < kLanes; ++l) square[l] = hn::LoadU(D(), rows[l]);
  transpose(square);
}

HWY_INLINE void part_square(Vec* square) { transpose(square); }

HWY_INLINE void store_pair(Vec first, Vec last, double* row, double* other) {
  hn::StoreU(first, D(), row);
  hn::StoreU(last, D(), other);
}
#endif

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
