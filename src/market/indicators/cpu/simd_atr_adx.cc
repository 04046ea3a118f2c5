#include "market/indicators/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/indicators/cpu/simd_atr_adx.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/indicators/cpu/group_kernel-inl.h"
#include "market/indicators/cpu/simd_segments.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

std::size_t atr_adx(const Plan& plan, const SegmentGroupCall* call) {
  RunGroup group{call};
  (void)visit_atr_adx<RowValue>(plan, group);
  return group.segments;
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(atr_adx);

std::size_t simd_atr_adx(const Plan& plan, const SegmentGroupCall* call) {
  return HWY_DYNAMIC_DISPATCH(atr_adx)(plan, call);
}

}  // namespace sluice::market
#endif
