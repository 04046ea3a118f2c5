// What becomes of sums on Hopper, made ready for its kernels.
#pragma once

#include <vector>

#include "kernels/quantized/int8_gemm.h"

namespace sluice::kernels::cuda {

// Results that are steps: in 256ths, so that a number between two of them is still between them.
// From 0 to 1 an addition holds them for nothing; they need 256 of the 257 numbers there. Their
// zero is added before they are rounded where it is even, and else one more, which is taken off
// again: half a step goes to the even one of those that count from the zero.
struct InSteps {
  bool is = false, has_low = false, has_high = false;  // bounds other than 0 and 1
  float low = 0, high = 1;
  float residual_scale = 0, residual_zero = 0;
  unsigned residual_flip = 0, flip = 0;  // of four bytes, from i8 to u8
  unsigned less = 0;                     // of four bytes, to take off
};
InSteps in_steps(const SmallFinish& finish);

// What finishes sums of a column.
SmallColumn hopper_column(const SmallFinish& finish, float scale, float bias, std::int32_t shift);

// Weights of n columns, `row` bytes each, as its kernels want them: a multiple of 16 columns, in an
// order by which a thread has four neighbours of every 16.
std::vector<std::uint8_t> in_hopper_order(const std::uint8_t* weights, std::int64_t n,
                                          std::int64_t row);

}  // namespace sluice::kernels::cuda
