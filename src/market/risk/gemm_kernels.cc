// Limit: arithmetic. A tile of 4 x 3 sums stays in registers, so that 7 loads feed 12
// multiply-adds; with AVX2 two of those a cycle, 16 FLOP.
#include "market/risk/gemm_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/risk/gemm_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "base/cancellation.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::gemm_simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kRowStep>;
using V = hn::Vec<D>;

constexpr std::size_t kTall = 4, kWide = 3;
constexpr std::size_t kBarsAtOnce = 512;  // 7 rows of it fit the first cache

// Adds the dot products over `bars` of kTall rows of a and kWide of b.
HWY_INLINE void add_tile(const double* const* HWY_RESTRICT a, const double* const* HWY_RESTRICT b,
                         std::size_t bars, double (*out)[kWide]) {
  const D d;
  V s00 = hn::Zero(d), s01 = s00, s02 = s00, s10 = s00, s11 = s00, s12 = s00;
  V s20 = s00, s21 = s00, s22 = s00, s30 = s00, s31 = s00, s32 = s00;
  for (std::size_t t = 0; t < bars; t += hn::Lanes(d)) {
    const V b0 = hn::LoadU(d, b[0] + t), b1 = hn::LoadU(d, b[1] + t), b2 = hn::LoadU(d, b[2] + t);
    V x = hn::LoadU(d, a[0] + t);
    s00 = hn::MulAdd(x, b0, s00), s01 = hn::MulAdd(x, b1, s01), s02 = hn::MulAdd(x, b2, s02);
    x = hn::LoadU(d, a[1] + t);
    s10 = hn::MulAdd(x, b0, s10), s11 = hn::MulAdd(x, b1, s11), s12 = hn::MulAdd(x, b2, s12);
    x = hn::LoadU(d, a[2] + t);
    s20 = hn::MulAdd(x, b0, s20), s21 = hn::MulAdd(x, b1, s21), s22 = hn::MulAdd(x, b2, s22);
    x = hn::LoadU(d, a[3] + t);
    s30 = hn::MulAdd(x, b0, s30), s31 = hn::MulAdd(x, b1, s31), s32 = hn::MulAdd(x, b2, s32);
  }
  const auto total = [&](V v) { return hn::GetLane(hn::SumOfLanes(d, v)); };
  out[0][0] += total(s00), out[0][1] += total(s01), out[0][2] += total(s02);
  out[1][0] += total(s10), out[1][1] += total(s11), out[1][2] += total(s12);
  out[2][0] += total(s20), out[2][1] += total(s21), out[2][2] += total(s22);
  out[3][0] += total(s30), out[3][1] += total(s31), out[3][2] += total(s32);
}

// Rows [begin, end) of the result. A tile at the edge computes its last row or column more
// than once rather than beyond the end.
void panel(const double* a, const double* b, std::size_t n, std::size_t stride, bool lower_only,
           std::size_t begin, std::size_t end, double* out) {
  const std::size_t columns = lower_only ? end : n;
  for (std::size_t i = begin; i < end; ++i) std::fill_n(out + i * n, columns, 0.0);
  for (std::size_t t = 0; t < stride; t += kBarsAtOnce) {
    throw_if_cancelled();
    const std::size_t bars = std::min(kBarsAtOnce, stride - t);
    for (std::size_t j = 0; j < columns; j += kWide) {
      const double* right[kWide];
      for (std::size_t k = 0; k < kWide; ++k) right[k] = b + std::min(j + k, n - 1) * stride + t;
      for (std::size_t i = lower_only ? std::max(begin, j / kTall * kTall) : begin; i < end;
           i += kTall) {
        const double* left[kTall];
        for (std::size_t k = 0; k < kTall; ++k) left[k] = a + std::min(i + k, n - 1) * stride + t;
        double tile[kTall][kWide] = {};
        add_tile(left, right, bars, tile);
        for (std::size_t r = 0; r < std::min(kTall, end - i); ++r)
          for (std::size_t c = 0; c < std::min(kWide, columns - j); ++c)
            out[(i + r) * n + j + c] += tile[r][c];
      }
    }
  }
}

}  // namespace sluice::market::gemm_simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace gemm_simd {
namespace {
HWY_EXPORT(panel);
}
}  // namespace gemm_simd

void gemm_nt(compute::Workers& workers, const double* a, const double* b, std::size_t n,
             std::size_t stride, bool lower_only, double* out) {
  using namespace gemm_simd;
  constexpr std::size_t kRows = 32;  // their bars at once fit the second cache
  workers.each((n + kRows - 1) / kRows, 1, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(panel)
    (a, b, n, stride, lower_only, begin * kRows, std::min(end * kRows, n), out);
  });
}

}  // namespace sluice::market
#endif
