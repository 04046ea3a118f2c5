// The float vector of the CPU kernels. Included again for each instruction set, as math-inl.h is.
#include <hwy/highway.h>

#if defined(SLUICE_KERNELS_COMMON_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_COMMON_LANES_INL_H_
#undef SLUICE_KERNELS_COMMON_LANES_INL_H_
#else
#define SLUICE_KERNELS_COMMON_LANES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
