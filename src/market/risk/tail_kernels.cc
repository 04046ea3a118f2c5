// Limit: a load, a comparison and a packing store for each vector; about 1 cycle a bar.
#include "market/risk/tail_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/risk/tail_kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sluice::market::tail_simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

Kept keep(const double* HWY_RESTRICT values, std::size_t n, double limit, double* HWY_RESTRICT out,
          std::size_t capacity) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto bound = hn::Set(d, limit);
  Kept k{0, 0};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::LoadU(d, values + i);
    const auto small = hn::Le(x, bound);
    k.present += hn::CountTrue(d, hn::Eq(x, x));
    if (HWY_LIKELY(hn::AllFalse(d, small))) continue;
    const std::size_t more = hn::CountTrue(d, small);
    if (k.kept + lanes > capacity) return {capacity + 1, k.present};
    hn::CompressBlendedStore(x, small, d, out + k.kept);
    k.kept += more;
  }
  for (; i < n; ++i) {
    k.present += values[i] == values[i] ? 1 : 0;
    if (!(values[i] <= limit)) continue;
    if (k.kept == capacity) return {capacity + 1, k.present};
    out[k.kept++] = values[i];
  }
  return k;
}

}  // namespace sluice::market::tail_simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {
namespace tail_simd {
namespace {
HWY_EXPORT(keep);
}
}  // namespace tail_simd

Kept keep_at_most(const double* values, std::size_t n, double limit, double* out,
                  std::size_t capacity) {
  using namespace tail_simd;
  return HWY_DYNAMIC_DISPATCH(keep)(values, n, limit, out, capacity);
}

}  // namespace sluice::market
#endif
