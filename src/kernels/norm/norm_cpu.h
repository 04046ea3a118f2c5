// Layer norm and softmax of contiguous rows on the CPU, by the calling thread.
#pragma once

#include <cstddef>

namespace sluice::kernels::cpu {

// y = (x + residual - mean) / sqrt(variance + epsilon) * scale + bias, for each row of n elements.
// residual and bias may be null; y may be x.
void norm_rows(const float* x, const float* residual, const float* scale, const float* bias,
               float* y, std::size_t rows, std::size_t n, float epsilon);

void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t n);

}  // namespace sluice::kernels::cpu
