// Det: determinants of square matrices.
#include <cmath>

#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// Gaussian elimination with partial pivoting.
double determinant(std::vector<double>& a, std::size_t n) {
  double result = 1;
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t best = column;
    for (std::size_t row = column + 1; row < n; ++row)
      if (std::fabs(a[row * n + column]) > std::fabs(a[best * n + column])) best = row;
    if (a[best * n + column] == 0) return 0;
    if (best != column) {
      for (std::size_t i = 0; i < n; ++i) std::swap(a[best * n + i], a[column * n + i]);
      result = -result;
    }
    result *= a[column * n + column];
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row * n + column] / a[column * n + column];
      for (std::size_t i = column; i < n; ++i) a[row * n + i] -= factor * a[column * n + i];
    }
  }
  return result;
}

void det(OpCall& call) {
  const Tensor& in = call.input(0);
  const int rank = in.rank();
  require(rank >= 2 && in.shape()[rank - 1] == in.shape()[rank - 2],
          "the last two axes must be a square matrix, not " + to_string(in.shape()));
  const auto n = static_cast<std::size_t>(in.shape()[rank - 1]);
  const Shape shape(in.shape().dims().first(static_cast<std::size_t>(rank - 2)));
  call.declare_output(0, in.dtype(), shape);
  const Tensor wide = converted(in, DType::f64), out(DType::f64, shape);
  const double* from = wide.values<double>().data();
  for (double& value : out.values<double>()) {
    std::vector<double> matrix(from, from + n * n);
    value = determinant(matrix, n);
    from += n * n;
  }
  call.set_output(0, converted(out, in.dtype()));
}

constexpr Op kDetOps[] = {{"Det", 11, kReals, det}};

}  // namespace

std::span<const Op> det_ops() { return kDetOps; }

}  // namespace sluice::engine
