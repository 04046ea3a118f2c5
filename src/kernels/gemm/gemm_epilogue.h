// The epilogue of a GEMM or convolution on CUDA: compensation, scale, bias, residual, activation
// and requantization. Device code: epilogue.cuh; for the Hopper (sm_90a) GEMM: epilogue_sm90.cuh.
// quantized/quantize.h launches it as a kernel of its own; epilogue_kernel.h has a smaller one, for
// float results in place.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"

namespace sluice::kernels::cuda {

// Element types of operands and results.
enum class GemmType { none, f32, f16, bf16, u8, i8, f8e4m3 };
inline int bytes_of(GemmType type) {
  if (type == GemmType::f32) return 4;
  return type == GemmType::f16 || type == GemmType::bf16 ? 2 : 1;
}

// y = quantize(activation(z) + residual), z = (sum - compensation) * scale + bias; with
// residual_first quantize(activation(z + residual)). scale, bias and compensation have one value
// for each of the n columns.
struct GemmEpilogue {
  const void* sums = nullptr;  // accumulators, `sum_stride` elements from row to row
  bool int32_sums = true;      // false: f32
  std::int64_t sum_stride = 0;
  std::int64_t rows = 0;
  int n = 0;
  const std::int32_t* compensation = nullptr;  // of the zero point of x; null: none
  const float *scale = nullptr, *bias = nullptr;
  const void* residual = nullptr;
  GemmType residual_type = GemmType::none, to = GemmType::f32;
  float residual_scale = 1, to_scale = 1;
  int residual_zero = 0, to_zero = 0;
  bool residual_first = false;          // the residual is added before the activation
  bool has_large_compensation = false;  // a float does not hold it exactly
  Activation activation = Activation::none;
  float low = 0, high = 0;  // bounds of clip
  void* y = nullptr;
};

}  // namespace sluice::kernels::cuda
