#include "market/indicators/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/indicators/cpu/simd_averages_macd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/indicators/cpu/group_kernel-inl.h"
#include "market/indicators/cpu/simd_segments.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

std::size_t averages_macd(const Plan& plan, const SegmentGroupCall* call) {
  RunGroup group{call};
  (void)visit_averages<RowValue>(plan, group);
  return group.segments;
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(averages_macd);

std::size_t simd_averages_macd(const Plan& plan, const SegmentGroupCall* call) {
  return HWY_DYNAMIC_DISPATCH(averages_macd)(plan, call);
}

}  // namespace sluice::market
#endif
