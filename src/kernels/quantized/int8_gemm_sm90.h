// Products of small numbers by instructions that GPUs of compute capability 9.0 alone have.
#pragma once

#include "kernels/quantized/int8_gemm.h"

namespace sluice::kernels::cuda {

inline constexpr int kHopper = 90;  // compute capability

inline bool is_on_hopper(SmallTile tile) { return tile >= SmallTile::hopper; }

// Whether it can be made of its tile, which is one of those that are named after Hopper. What it
// reads and writes need not be there yet.
bool hopper_takes(const SmallProduct& product);

// With weights in the order of hopper_row(), and hopper_column()s.
void enqueue_on_hopper(const SmallProduct& product, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
