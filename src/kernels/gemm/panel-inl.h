// The tile size of the CPU GEMMs. Included again for each instruction set, as math-inl.h is.
#include <hwy/highway.h>

#include <utility>

#if defined(SLUICE_KERNELS_GEMM_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_GEMM_PANEL_INL_H_
#undef SLUICE_KERNELS_GEMM_PANEL_INL_H_
#else
#define SLUICE_KERNELS_GEMM_PANEL_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
// Six rows by two vectors leave four of sixteen registers for operands. With 32 registers it is six
// by four: twelve by two ran out of address registers and was a tenth slower.
constexpr int kVectors = kLanes == 16 ? 4 : 2;  // of a panel's row
constexpr int kColumns = kVectors * kLanes;
constexpr int kRows = 6;

// Constant indices, which keep arrays in registers.
template <int N>
using Upto = std::make_integer_sequence<int, N>;

}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
