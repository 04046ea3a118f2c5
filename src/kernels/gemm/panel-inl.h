// The size of the tiles that products of rows with panels of weights are made in. Included again
// for each instruction set, like functions-inl.h.
#include <hwy/highway.h>

#include <utility>

#if defined(SLUICE_ENGINE_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_ENGINE_CPU_PANEL_INL_H_
#undef SLUICE_ENGINE_CPU_PANEL_INL_H_
#else
#define SLUICE_ENGINE_CPU_PANEL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
// Six rows by two vectors leave four of sixteen registers for operands. With 32 registers it is
// six by four: twelve by two ran out of registers for addresses and lost a tenth.
constexpr int kVectors = kLanes == 16 ? 4 : 2;  // of a panel's row
constexpr int kColumns = kVectors * kLanes;
constexpr int kRows = 6;

// Indices that are constants, so that what they index stays in registers.
template <int N>
using Upto = std::make_integer_sequence<int, N>;

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
