#include "engine/cuda/hopper_finish.h"

#include <limits>

namespace sluice::engine::cuda {
namespace {

// Small numbers, with nothing on the way to them that is not held as they are.
bool makes_steps(const SmallFinish& f) {
  const bool is_held = f.activation == Activation::none || f.activation == Activation::relu ||
                       f.activation == Activation::clip;
  return (f.to == SmallType::u8 || f.to == SmallType::i8) && is_held &&
         (f.residual_type == SmallType::none || f.residual_first);
}

// The zero of steps, counted from the lowest.
float zero_of(const SmallFinish& f) {
  return static_cast<float>(f.to_zero + (f.to == SmallType::i8 ? 128 : 0));
}

}  // namespace

InSteps in_steps(const SmallFinish& f) {
  if (!makes_steps(f)) return {};
  const float unit = 1 / (f.to_scale * 255);
  const bool clips = f.activation == Activation::clip;
  const float none = std::numeric_limits<float>::infinity();
  const float low = clips ? f.low : f.activation == Activation::relu ? 0 : -none;
  const float high = clips ? f.high : none;
  const bool is_i8 = f.residual_type == SmallType::i8;
  const bool is_small = is_i8 || f.residual_type == SmallType::u8;
  InSteps steps{.is = true,
                .low = low * unit + zero_of(f) / 255,
                .high = high * unit + zero_of(f) / 255,
                .residual_scale = is_small ? f.residual_scale * unit : unit,
                .residual_zero = static_cast<float>(f.residual_zero + (is_i8 ? 128 : 0)),
                .residual_flip = is_i8 ? 0x80808080u : 0,
                .flip = f.to == SmallType::i8 ? 0x80808080u : 0};
  steps.has_bounds = steps.low > 0 || steps.high < 1;
  return steps;
}

int hopper_row(int column) {
  const int thread = column % 16 / 4, two = column % 4 / 2;
  return column / 16 * 16 + two * 8 + thread * 2 + column % 2;
}

SmallColumn hopper_column(const SmallFinish& f, float scale, float bias, std::int32_t shift) {
  double by = scale, more = bias - by * shift;
  if (makes_steps(f)) {
    by /= f.to_scale * 255.0;
    more = (more / f.to_scale + zero_of(f)) / 255;
  }
  return {static_cast<float>(by), static_cast<float>(more)};
}

}  // namespace sluice::engine::cuda
