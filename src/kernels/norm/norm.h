// Layer, RMS, group and instance norm of rows, and softmax and Lp norms along an axis, on CUDA.
// Types are f32, f16 and bf16; sums are f32.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

// A quantized copy of a result: saturate(round(result / scale) + zero).
struct QuantOutput {
  void* to = nullptr;  // u8 or i8; null: none
  float scale = 0;     // 0: none
  int zero = 0;
  bool is_signed = false;
};

// out = (x + residual - mean) / sqrt(variance + epsilon) * scale + bias, for rows of n elements.
// Element i of row r takes scale and bias number r % period * each + i / pixels.
struct LayerNormCall {
  const void *x, *residual, *scale, *bias;  // residual and bias may be null
  void* out;
  float *mean, *rstd;  // mean and 1 / standard deviation of each row, or null
  QuantOutput quantized;
  std::int64_t rows, n;
  std::int64_t period = 1, each = 0, pixels = 1;
  float epsilon;
  bool centre = true;  // false: RMS norm, the mean is taken as 0

  bool plain() const { return period == 1 && each == 0 && pixels == 1; }
};
void layer_norm(RealType type, const LayerNormCall& call, const LaunchArgs& args);

// Along the middle axis of outer x n x inner.
enum class AxisNorm { softmax, log_softmax, hardmax, l1, l2 };
struct AxisNormCall {
  const void* x;
  void* out;
  std::int64_t outer, n, inner;
  AxisNorm kind;
};
void axis_norm(RealType type, const AxisNormCall& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
