#include "kernels/quantized/epilogue_params_sm90.h"

#include <algorithm>

namespace sluice::kernels::cuda {
namespace {

constexpr double kParts = 256;

// Small numbers, with nothing on the way to them that is not held as they are.
bool makes_steps(const SmallFinish& f) {
  const bool is_held = f.activation == Activation::none || f.activation == Activation::relu ||
                       f.activation == Activation::clip;
  return (f.to == SmallType::u8 || f.to == SmallType::i8) && is_held &&
         (f.residual_type == SmallType::none || f.residual_first);
}

// The zero of steps, counted from the lowest.
int zero_of(const SmallFinish& f) { return f.to_zero + (f.to == SmallType::i8 ? 128 : 0); }
bool is_odd(const SmallFinish& f) { return zero_of(f) % 2 != 0; }
// A result, in the parts that it is held in.
double in_parts(const SmallFinish& f, double x) {
  return (x / f.to_scale + zero_of(f) + (is_odd(f) ? 1 : 0)) / kParts;
}

int hopper_row(int column) {
  const int thread = column % 16 / 4, two = column % 4 / 2;
  return column / 16 * 16 + two * 8 + thread * 2 + column % 2;
}

}  // namespace

InSteps in_steps(const SmallFinish& f) {
  if (!makes_steps(f)) return {};
  const double least = is_odd(f) ? 1 / kParts : 0, most = least + 255 / kParts;
  double low = least, high = most;
  if (f.activation == Activation::relu || f.activation == Activation::clip)
    low = std::clamp(in_parts(f, f.activation == Activation::clip ? f.low : 0), least, most);
  if (f.activation == Activation::clip) high = std::clamp(in_parts(f, f.high), low, most);
  const bool is_i8 = f.residual_type == SmallType::i8;
  const bool is_small = is_i8 || f.residual_type == SmallType::u8;
  const double unit = (is_small ? f.residual_scale : 1.0) / (f.to_scale * kParts);
  return {.is = true,
          .has_low = low > 0,
          .has_high = high < 1,
          .low = static_cast<float>(low),
          .high = static_cast<float>(high),
          .residual_scale = static_cast<float>(unit),
          .residual_zero = static_cast<float>(f.residual_zero + (is_i8 ? 128 : 0)),
          .residual_flip = is_i8 ? 0x80808080u : 0,
          .flip = f.to == SmallType::i8 ? 0x80808080u : 0,
          .less = is_odd(f) ? 0x01010101u : 0};
}

SmallColumn hopper_column(const SmallFinish& f, float scale, float bias, std::int32_t shift) {
  const double by = scale, more = bias - by * shift;
  if (!makes_steps(f)) return {scale, static_cast<float>(more)};
  return {static_cast<float>(by / (f.to_scale * kParts)), static_cast<float>(in_parts(f, more))};
}

std::vector<std::uint8_t> in_hopper_order(const std::uint8_t* weights, std::int64_t n,
                                          std::int64_t row) {
  std::vector<std::uint8_t> arranged(static_cast<std::size_t>((n + 15) / 16 * 16 * row));
  for (std::int64_t i = 0; i < n; ++i)
    std::copy_n(weights + i * row, row, arranged.begin() + hopper_row(static_cast<int>(i)) * row);
  return arranged;
}

}  // namespace sluice::kernels::cuda
