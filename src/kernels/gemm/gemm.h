// Products of matrices, on all cores.
#pragma once

#include <cstdint>

#include "compute/workers.h"

namespace sluice::kernels {

// Where the elements of a matrix lie: steps in memory to the next row and column.
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t row, column;
};

// c (m x n, rows `c_row` apart) = a (m x k) * b (k x n); all zeros where k is 0. T is float,
// double, std::uint32_t or std::uint64_t: the signed integers of that width give the same
// bits, since both wrap around.
template <class T>
void multiply(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
              MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_row);

// What multiply() calls for its innermost part, in the processor's own vector width.
namespace gemm {

inline constexpr int kRows = 6;  // of a tile
inline constexpr int kMostColumns = 32;

int columns(float);  // of a tile
int columns(double);
// to (kRows x columns(), rows `to_row` apart) = or += a (k x kRows, packed) * b (k x columns(),
// rows `b_row` apart)
void tile(const float* a, const float* b, std::int64_t b_row, std::int64_t k, float* to,
          std::int64_t to_row, bool add);
void tile(const double* a, const double* b, std::int64_t b_row, std::int64_t k, double* to,
          std::int64_t to_row, bool add);

}  // namespace gemm
}  // namespace sluice::kernels
