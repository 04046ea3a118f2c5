// What the kernels of rows are told: normalizations, and softmax and its kin along an axis.
#pragma once

#include <cstdint>

#include "kernels/common/launch_args.h"
#include "kernels/common/real_type.h"

namespace sluice::kernels::cuda {

// What is written beside a result, of f32, f16 or bf16: round(result / scale) + zero.
struct StepsOf {
  void* to = nullptr;  // u8 or i8; null: nothing
  float scale = 0;     // 0: no steps are wanted
  int zero = 0;
  bool is_signed = false;
};

// out = (x + residual - mean) / sqrt(variance + epsilon) * scale + bias, of rows of n.
// Element i of row r has scale and bias number r % period * each + i / pixels.
struct RowNorm {
  const void *x, *residual, *scale, *bias;  // residual and bias may be null
  void* out;
  float *mean, *inverse;  // one for each row, or null
  StepsOf steps;
  std::int64_t rows, n;
  std::int64_t period = 1, each = 0, pixels = 1;
  float epsilon;
  bool centre = true;  // false: as if the mean were 0

  bool plain() const { return period == 1 && each == 0 && pixels == 1; }
};
void row_norm(RealType type, const RowNorm& call, const LaunchArgs& args);

// Along the middle of outer x n x inner.
enum class LineKind { softmax, log_softmax, hardmax, length1, length2 };
struct Lines {
  const void* x;
  void* out;
  std::int64_t outer, n, inner;
  LineKind kind;
};
void along_lines(RealType type, const Lines& call, const LaunchArgs& args);

}  // namespace sluice::kernels::cuda
