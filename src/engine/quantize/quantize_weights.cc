#include "engine/quantize/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sluice::engine {
namespace {

// Which scale an element has: the axis is cut into `parts` blocks.
struct Blocks {
  std::int64_t n, inner, block, parts;
  bool whole;  // one scale for all that is at one place of the axis

  std::size_t operator()(std::int64_t i) const {
    const std::int64_t along = i / inner % n / block;
    return static_cast<std::size_t>(whole ? along
                                          : (i / inner / n * parts + along) * inner + i % inner);
  }
};

// The largest magnitude of each block, divided by `most`; 1 where all are 0.
std::vector<float> scales_of(const Tensor& weights, const Blocks& blocks, std::size_t count,
                             float most) {
  std::vector<float> scales(count, 0.0f);
  const auto values = weights.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& scale = scales[blocks(static_cast<std::int64_t>(i))];
    scale = std::max(scale, std::fabs(values[i]));
  }
  for (float& scale : scales) scale = scale > 0 && std::isfinite(scale) ? scale / most : 1.0f;
  return scales;
}

template <class T>
Tensor rounded(const Tensor& weights, const Blocks& blocks, const std::vector<float>& scales,
               float most) {
  const Tensor small(kDTypeOf<T>, weights.shape());
  const auto from = weights.values<float>();
  const auto to = small.values<T>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float steps = from[i] / scales[blocks(static_cast<std::int64_t>(i))];
    const float held = std::isnan(steps) ? 0 : std::clamp(std::nearbyint(steps), -most, most);
    to[i] = static_cast<T>(static_cast<int>(held));
  }
  return small;
}

// Smaller scales where that brings the block nearer: few steps pay for a largest value that is
// held back.
void tighten(const Tensor& weights, const Blocks& blocks, float most, std::vector<float>& scales) {
  const auto values = weights.values<float>();
  const std::vector<float> whole = scales;
  std::vector<double> least(scales.size(), std::numeric_limits<double>::infinity());
  for (const float share : {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f}) {
    std::vector<double> off(scales.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = blocks(static_cast<std::int64_t>(i));
      const float scale = whole[at] * share;
      const float held = std::clamp(std::nearbyint(values[i] / scale), -most, most);
      const double error = static_cast<double>(values[i] - held * scale);
      off[at] += error * error;
    }
    for (std::size_t i = 0; i < scales.size(); ++i)
      if (off[i] < least[i]) least[i] = off[i], scales[i] = whole[i] * share;
  }
}

}  // namespace

SmallWeights int8_weights(const Tensor& weights, int axis) {
  const Shape& shape = weights.shape();
  const Blocks blocks{shape[axis], shape.size(axis + 1, shape.rank()), 1, shape[axis], true};
  const std::vector<float> scales =
      scales_of(weights, blocks, static_cast<std::size_t>(shape[axis]), 127);
  return {rounded<std::int8_t>(weights, blocks, scales, 127),
          Tensor::of(std::span<const float>(scales)), axis, 0};
}

SmallWeights int4_weights(const Tensor& weights, int axis, std::int64_t block) {
  Shape shape = weights.shape();
  const std::int64_t parts = shape[axis] / block + (shape[axis] % block != 0 ? 1 : 0);
  const Blocks blocks{shape[axis], shape.size(axis + 1, shape.rank()), block, parts, false};
  shape[axis] = parts;
  std::vector<float> scales = scales_of(weights, blocks, static_cast<std::size_t>(shape.size()), 7);
  tighten(weights, blocks, 7, scales);
  return {rounded<Int4>(weights, blocks, scales, 7),
          Tensor::of(std::span<const float>(scales)).reshaped(shape), axis, block};
}

SmallWeights fp8_weights(const Tensor& weights) {
  float most = 0;
  for (const float x : weights.values<float>()) most = std::max(most, std::fabs(x));
  const float scale = most > 0 && std::isfinite(most) ? most / kMostFp8 : 1.0f;
  const Tensor small(DType::f8e4m3fn, weights.shape());
  const auto from = weights.values<float>();
  const auto to = small.values<Float8E4M3FN>();
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = Float8E4M3FN(std::clamp(from[i] / scale, -kMostFp8, kMostFp8));
  return {small, Tensor::of(scale), -1, 0};
}

}  // namespace sluice::engine
