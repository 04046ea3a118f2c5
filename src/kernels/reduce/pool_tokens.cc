#include "kernels/reduce/pool_tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace sluice::kernels {
namespace {

constexpr std::array<std::string_view, 4> kNames{"sum", "mean", "first", "last"};
constexpr double kMinNorm = 1e-12;  // PyTorch's: a vector of zeros stays zeros

}  // namespace

std::string_view to_string(TokenPooling pooling) {
  return kNames[static_cast<std::size_t>(pooling)];
}

std::optional<TokenPooling> token_pooling_named(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<TokenPooling>(found - kNames.begin());
}

namespace cpu {
namespace {

void sum_rows(const float* __restrict x, std::size_t tokens, std::size_t n, float* __restrict out) {
  std::fill(out, out + n, 0.0f);
  for (std::size_t token = 0; token < tokens; ++token, x += n)
    for (std::size_t i = 0; i < n; ++i) out[i] += x[i];
}

void scale(float* out, std::size_t n, float by) {
  for (std::size_t i = 0; i < n; ++i) out[i] *= by;
}

}  // namespace

void normalize_row(float* row, std::size_t n) {
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i)
    squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  scale(row, n, static_cast<float>(1 / std::max(std::sqrt(squares), kMinNorm)));
}

void pool_tokens(TokenPooling pooling, bool normalize, const float* x, std::size_t tokens,
                 std::size_t n, float* out) {
  const bool one = pooling == TokenPooling::first || pooling == TokenPooling::last;
  if (one && tokens > 0)
    std::memcpy(out, x + (pooling == TokenPooling::last ? (tokens - 1) * n : 0), n * sizeof(float));
  else
    sum_rows(x, one ? 0 : tokens, n, out);
  if (pooling == TokenPooling::mean && tokens > 0) scale(out, n, 1 / static_cast<float>(tokens));
  if (normalize) normalize_row(out, n);
}

}  // namespace cpu
}  // namespace sluice::kernels
