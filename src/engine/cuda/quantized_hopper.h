// Products of small numbers by instructions that GPUs of compute capability 9.0 alone have.
#pragma once

#include "engine/cuda/quantized.h"

namespace sluice::engine::cuda {

inline constexpr int kHopper = 90;  // compute capability

// With one of the tiles that are named after it.
void enqueue_on_hopper(const SmallProduct& product, CUstream_st* stream);

}  // namespace sluice::engine::cuda
