// Epilogue parameters that the Hopper (sm_90a) GEMM takes, computed on the host.
#pragma once

#include <vector>

#include "kernels/gemm/tile_gemm.h"

namespace sluice::kernels::cuda {

// Parameters of the fast path for u8 and i8 results. Results are scaled by 1/256, so that the
// saturating FMA, which clamps to [0, 1], clamps them for free; of the 257 levels in that range 256
// are used. The zero point is added before rounding. An odd zero point is made even before and
// corrected after, so that ties round to even relative to it.
struct SaturatingEpilogue {
  bool enabled = false;
  bool has_low = false, has_high = false;  // bounds other than 0 and 1
  float low = 0, high = 1;
  float residual_scale = 0, residual_zero = 0;
  unsigned residual_sign_flip = 0, sign_flip = 0;  // for four bytes: between i8 and u8
  unsigned odd_zero_correction = 0;                // subtracted from four bytes
};
// Not enabled where the result is not u8 or i8, or the activation is more than a clamp.
SaturatingEpilogue saturating_epilogue(const GemmEpilogue& epilogue);

// The scale and bias of a column, with the zero point compensation folded in.
ScaleBias sm90_scale_bias(const GemmEpilogue& epilogue, float scale, float bias,
                          std::int32_t compensation);

// Permutes the weights of n columns, `row` bytes each, and pads them to a multiple of 16 columns.
// In this order a thread's accumulators of every 16 columns are four neighbours.
std::vector<std::uint8_t> sm90_weight_order(const std::uint8_t* weights, std::int64_t n,
                                            std::int64_t row);

}  // namespace sluice::kernels::cuda
