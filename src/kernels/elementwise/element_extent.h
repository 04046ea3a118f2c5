#pragma once

#define SLUICE_CODE(...) __VA_ARGS__
namespace sluice::kernels::cuda {

#include "kernels/elementwise/element_extent.inc"

inline constexpr int kMaxElementAxes = 8, kMaxElementInputs = 16;
inline constexpr unsigned kElementThreads = 256;

}  // namespace sluice::kernels::cuda
#undef SLUICE_CODE
