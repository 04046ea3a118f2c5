#include "kernels/gemm/epilogue_params_sm90.h"

#include <algorithm>

namespace sluice::kernels::cuda {
namespace {

constexpr double kLevels = 256;

// Quantized results whose activation is none or a clamp, with nothing added behind it.
bool is_saturating(const GemmEpilogue& f) {
  const bool is_clamp = f.activation == Activation::none || f.activation == Activation::relu ||
                        f.activation == Activation::clip;
  return (f.to == GemmType::u8 || f.to == GemmType::i8) && is_clamp &&
         (f.residual_type == GemmType::none || f.residual_first);
}

// The zero point, counted from the lowest level.
int zero_of(const GemmEpilogue& f) { return f.to_zero + (f.to == GemmType::i8 ? 128 : 0); }
bool is_odd(const GemmEpilogue& f) { return zero_of(f) % 2 != 0; }
// A result as a fraction of the 256 levels.
double as_fraction(const GemmEpilogue& f, double x) {
  return (x / f.to_scale + zero_of(f) + (is_odd(f) ? 1 : 0)) / kLevels;
}

int sm90_row(int column) {
  const int thread = column % 16 / 4, two = column % 4 / 2;
  return column / 16 * 16 + two * 8 + thread * 2 + column % 2;
}

}  // namespace

SaturatingEpilogue saturating_epilogue(const GemmEpilogue& f) {
  if (!is_saturating(f)) return {};
  const double lowest = is_odd(f) ? 1 / kLevels : 0, highest = lowest + 255 / kLevels;
  double low = lowest, high = highest;
  if (f.activation == Activation::relu || f.activation == Activation::clip)
    low = std::clamp(as_fraction(f, f.activation == Activation::clip ? f.low : 0), lowest, highest);
  if (f.activation == Activation::clip) high = std::clamp(as_fraction(f, f.high), low, highest);
  const bool is_i8 = f.residual_type == GemmType::i8;
  const bool is_quantized = is_i8 || f.residual_type == GemmType::u8;
  const double unit = (is_quantized ? f.residual_scale : 1.0) / (f.to_scale * kLevels);
  return {.enabled = true,
          .has_low = low > 0,
          .has_high = high < 1,
          .low = static_cast<float>(low),
          .high = static_cast<float>(high),
          .residual_scale = static_cast<float>(unit),
          .residual_zero = static_cast<float>(f.residual_zero + (is_i8 ? 128 : 0)),
          .residual_sign_flip = is_i8 ? 0x80808080u : 0,
          .sign_flip = f.to == GemmType::i8 ? 0x80808080u : 0,
          .odd_zero_correction = is_odd(f) ? 0x01010101u : 0};
}

ScaleBias sm90_scale_bias(const GemmEpilogue& f, float scale, float bias,
                          std::int32_t compensation) {
  const double by = scale, more = bias - by * compensation;
  if (!is_saturating(f)) return {scale, static_cast<float>(more)};
  return {static_cast<float>(by / (f.to_scale * kLevels)),
          static_cast<float>(as_fraction(f, more))};
}

std::vector<std::uint8_t> sm90_weight_order(const std::uint8_t* weights, std::int64_t n,
                                            std::int64_t row) {
  std::vector<std::uint8_t> permuted(static_cast<std::size_t>((n + 15) / 16 * 16 * row));
  for (std::int64_t i = 0; i < n; ++i)
    std::copy_n(weights + i * row, row, permuted.begin() + sm90_row(static_cast<int>(i)) * row);
  return permuted;
}

}  // namespace sluice::kernels::cuda
