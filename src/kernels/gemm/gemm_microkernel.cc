// Compiled for several instruction sets; dispatched at run time.
#include "kernels/gemm/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_microkernel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::CappedTag<T, 64 / sizeof(T)>;

int columns_f32() { return 2 * static_cast<int>(hn::Lanes(Lanes<float>())); }
int columns_f64() { return 2 * static_cast<int>(hn::Lanes(Lanes<double>())); }

// Limit: two FMAs a cycle; the twelve accumulators stay in registers.
template <class T>
HWY_INLINE void tile_of(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, std::int64_t b_row,
                        std::int64_t k, T* HWY_RESTRICT to, std::int64_t to_row, bool add) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
  auto s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
  for (std::int64_t i = 0; i < k; ++i, a += gemm::kRows, b += b_row) {
    const auto left = hn::LoadU(d, b), right = hn::LoadU(d, b + lanes);
    const auto row = [&](int r, auto& x, auto& y) HWY_ATTR {
      const auto value = hn::Set(d, a[r]);
      x = hn::MulAdd(value, left, x);
      y = hn::MulAdd(value, right, y);
    };
    row(0, s00, s01);
    row(1, s10, s11);
    row(2, s20, s21);
    row(3, s30, s31);
    row(4, s40, s41);
    row(5, s50, s51);
  }
  const auto store = [&](int r, const auto& x, const auto& y) HWY_ATTR {
    T* const left = to + r * to_row;
    T* const right = left + lanes;
    hn::StoreU(add ? hn::Add(x, hn::LoadU(d, left)) : x, d, left);
    hn::StoreU(add ? hn::Add(y, hn::LoadU(d, right)) : y, d, right);
  };
  store(0, s00, s01);
  store(1, s10, s11);
  store(2, s20, s21);
  store(3, s30, s31);
  store(4, s40, s41);
  store(5, s50, s51);
}

void tile_f32(const float* a, const float* b, std::int64_t b_row, std::int64_t k, float* to,
              std::int64_t to_row, bool add) {
  tile_of(a, b, b_row, k, to, to_row, add);
}
void tile_f64(const double* a, const double* b, std::int64_t b_row, std::int64_t k, double* to,
              std::int64_t to_row, bool add) {
  tile_of(a, b, b_row, k, to, to_row, add);
}

}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(columns_f32);
HWY_EXPORT(columns_f64);
HWY_EXPORT(tile_f32);
HWY_EXPORT(tile_f64);

namespace gemm {

int columns(float) { return HWY_DYNAMIC_DISPATCH(columns_f32)(); }
int columns(double) { return HWY_DYNAMIC_DISPATCH(columns_f64)(); }
void tile(const float* a, const float* b, std::int64_t b_row, std::int64_t k, float* to,
          std::int64_t to_row, bool add) {
  HWY_DYNAMIC_DISPATCH(tile_f32)(a, b, b_row, k, to, to_row, add);
}
void tile(const double* a, const double* b, std::int64_t b_row, std::int64_t k, double* to,
          std::int64_t to_row, bool add) {
  HWY_DYNAMIC_DISPATCH(tile_f64)(a, b, b_row, k, to, to_row, add);
}

}  // namespace gemm
}  // namespace sluice::kernels
#endif
