// Matrix multiplication on all CPU cores, of operands that are computed: any strides, f32, f64 and
// integers; blocks are packed as it runs. Weights are packed once and multiplied by packed_gemm.h.
#pragma once

#include <cstdint>

#include "compute/workers.h"

namespace sluice::kernels {

// A matrix in memory, with its row and column strides.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t row, column;
};

// c (m x n, row stride `c_row`) = a (m x k) * b (k x n); zeros where k is 0. T is float,
// double, std::uint32_t or std::uint64_t: the signed integers of that width give the same
// bits, since both wrap around.
template <class T>
void matmul(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
            MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_row);

// The micro-kernels of matmul(), in the vector width of the processor.
namespace gemm {

inline constexpr int kRows = 6;  // of a tile
inline constexpr int kMaxColumns = 32;

int columns(float);  // of a tile
int columns(double);
// to (kRows x columns(), row stride `to_row`) = or += a (k x kRows, packed) * b (k x columns(), row
// stride `b_row`).
void tile(const float* a, const float* b, std::int64_t b_row, std::int64_t k, float* to,
          std::int64_t to_row, bool add);
void tile(const double* a, const double* b, std::int64_t b_row, std::int64_t k, double* to,
          std::int64_t to_row, bool add);

}  // namespace gemm
}  // namespace sluice::kernels
