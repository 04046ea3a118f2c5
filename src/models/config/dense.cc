#include "models/config/dense.h"

#include <cmath>
#include <numbers>

#include "kernels/gemm/gemm.h"

namespace sluice::models {
namespace {

float activated(DenseActivation activation, float x) {
  switch (activation) {
    case DenseActivation::tanh: return std::tanh(x);
    case DenseActivation::relu: return x < 0 ? 0 : x;  // NaN stays
    case DenseActivation::gelu: return x * 0.5f * (1 + std::erf(x / std::numbers::sqrt2_v<float>));
    case DenseActivation::none: return x;
  }
  return x;
}

}  // namespace

std::vector<float> apply(const Dense& dense, std::span<const float> rows,
                         compute::Workers& workers) {
  const std::int64_t k = dense.in(), n = dense.out();
  const std::int64_t m = static_cast<std::int64_t>(rows.size()) / k;
  std::vector<float> made(static_cast<std::size_t>(m * n));
  kernels::matmul<float>(workers, m, n, k, {rows.data(), k, 1},
                         {dense.weights.values<float>().data(), 1, k}, made.data(), n);
  const float* const bias = dense.bias ? dense.bias.values<float>().data() : nullptr;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const float shift = bias != nullptr ? bias[i % static_cast<std::size_t>(n)] : 0;
    made[i] = activated(dense.activation, made[i] + shift);
  }
  return made;
}

}  // namespace sluice::models
