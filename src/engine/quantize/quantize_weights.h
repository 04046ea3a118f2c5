// Weights in fewer bits, with the scales that make them what they were, nearly.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace sluice::engine {

struct SmallWeights {
  Tensor values, scales;
  int axis = -1;           // that has the scales; -1: there is one for all
  std::int64_t block = 0;  // values along the axis that share one; 0: each has its own
};

inline constexpr float kMostFp8 = 448;  // of e4m3

// `weights` are f32. One scale for each place along `axis`, from -127 to 127.
SmallWeights int8_weights(const Tensor& weights, int axis);
// One scale for each `block` values along `axis`, from -7 to 7.
SmallWeights int4_weights(const Tensor& weights, int axis, std::int64_t block);
SmallWeights fp8_weights(const Tensor& weights);

}  // namespace sluice::engine
