// Quantization of weights.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace sluice::engine {

struct QuantizedWeights {
  Tensor values, scales;
  int axis = -1;           // the axis of the scales; -1: one scale per tensor
  std::int64_t block = 0;  // values along the axis per scale; 0: one scale per index of the axis
};

inline constexpr float kMaxFp8 = 448;  // the largest finite e4m3 value

// `weights` are f32. One scale per index of `axis`, values from -127 to 127.
QuantizedWeights int8_weights(const Tensor& weights, int axis);
// One scale per `block` values along `axis`, values from -7 to 7.
QuantizedWeights int4_weights(const Tensor& weights, int axis, std::int64_t block);
QuantizedWeights fp8_weights(const Tensor& weights);

}  // namespace sluice::engine
