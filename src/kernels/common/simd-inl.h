// Loads and stores of float vectors, and of partial vectors at the end of rows. Included again for
// each instruction set, as math-inl.h is.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/lanes-inl.h"

#if defined(SLUICE_KERNELS_COMMON_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_COMMON_SIMD_INL_H_
#undef SLUICE_KERNELS_COMMON_SIMD_INL_H_
#else
#define SLUICE_KERNELS_COMMON_SIMD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

constexpr D kFloats{};

// Loads `count` lanes and reads no further; the other lanes are `fill`.
HWY_INLINE V load(const float* from, std::size_t count, float fill = 0) {
  if (count == kLanes) return hn::LoadU(kFloats, from);
  HWY_ALIGN float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, fill);
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(kFloats, lanes);
}

HWY_INLINE void store(V value, float* to, std::size_t count) {
  if (count == kLanes) return hn::StoreU(value, kFloats, to);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(value, kFloats, lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
