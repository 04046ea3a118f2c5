// The scales and zero points around a quantized GEMM or convolution. A residual of u8 or i8 stands
// for (residual - residual_zero) * residual_scale. A result of u8, i8 or f8e4m3 is
// saturate(round(value / to_scale) + to_zero).
#pragma once

#include "tensor/dtype.h"

namespace sluice::kernels {

struct QuantParams {
  float residual_scale = 1, to_scale = 1;
  int residual_zero = 0, to_zero = 0;
  DType to = DType::f32;

  bool is_quantized() const { return bits(to) <= 8; }
};

}  // namespace sluice::kernels
