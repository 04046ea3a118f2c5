// What becomes of sums on Hopper, made ready for its kernels.
#pragma once

#include "engine/cuda/quantized.h"

namespace sluice::engine::cuda {

// Results that are steps: in 255ths of their range, whose ends hold them for nothing.
struct InSteps {
  bool is = false, has_bounds = false;  // others than the ends
  float low = 0, high = 1;
  float residual_scale = 0, residual_zero = 0;
  unsigned residual_flip = 0, flip = 0;  // of four bytes, from i8 to u8
};
InSteps in_steps(const SmallFinish& finish);

// What finishes sums of a column.
SmallColumn hopper_column(const SmallFinish& finish, float scale, float bias, std::int32_t shift);

// Where the weights of a column lie among those of all, which are a multiple of 16: so that a
// thread has four neighbours of every 16.
int hopper_row(int column);

}  // namespace sluice::engine::cuda
