#include "market/indicators/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/indicators/cpu/simd_bands_deviation.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/indicators/cpu/group_kernel-inl.h"
#include "market/indicators/cpu/simd_segments.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

std::size_t bands_deviation(const Plan& plan, const SegmentGroupCall* call) {
  RunGroup group{call};
  (void)visit_bands<RowValue>(plan, group);
  return group.segments;
}

void lane_roots(double min_value, const double* in, double* out, std::size_t count) {
  using V = SimdValue<2>;
  HWY_ALIGN double block[V::kWidth] = {};
  for (std::size_t i = 0; i < count; ++i) {
    std::fill_n(block, V::kWidth, in[i]);
    store_value(root_from(V(min_value), load_value<V>(block)), block);
    // Both algorithms.
    out[2 * i] = block[0];
    out[2 * i + 1] = block[V::kWidth - 1];
  }
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(bands_deviation);
HWY_EXPORT(lane_roots);

std::size_t simd_bands_deviation(const Plan& plan, const SegmentGroupCall* call) {
  return HWY_DYNAMIC_DISPATCH(bands_deviation)(plan, call);
}

void roots_in_lanes(double min_value, const double* in, double* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(lane_roots)(min_value, in, out, count);
}

}  // namespace sluice::market
#endif
