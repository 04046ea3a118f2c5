// Layer norm and softmax of contiguous rows on the CPU, by the calling thread.
#pragma once

#include <cstddef>

namespace sluice::kernels::cpu {

// y = (x + residual - mean) / sqrt(variance + epsilon) * scale + bias, for each row of n elements.
// residual and bias may be null; y may be x.
struct NormRows {
  const float *x = nullptr, *residual = nullptr, *scale = nullptr, *bias = nullptr;
  float* y = nullptr;
  std::size_t rows = 0, n = 0;
  float epsilon = 0;
  // Of each row, for the backward pass: its mean and 1 / its standard deviation; null: not saved.
  float *mean = nullptr, *rstd = nullptr;
};
void norm_rows(const NormRows& call);

void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t n);

}  // namespace sluice::kernels::cpu
