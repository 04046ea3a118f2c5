#include "engine/quantize/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sluice::engine {
namespace {

// Maps elements to scales; the axis is divided into `parts` blocks.
struct Blocks {
  std::int64_t n, inner, block, parts;
  bool per_channel;  // one scale per index of the axis

  std::size_t operator()(std::int64_t i) const {
    const std::int64_t along = i / inner % n / block;
    return static_cast<std::size_t>(
        per_channel ? along : (i / inner / n * parts + along) * inner + i % inner);
  }
};

// The largest magnitude of each block divided by `max`; 1 if all values are 0.
std::vector<float> scales_of(const Tensor& weights, const Blocks& blocks, std::size_t count,
                             float max) {
  std::vector<float> scales(count, 0.0f);
  const auto values = weights.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& scale = scales[blocks(static_cast<std::int64_t>(i))];
    scale = std::max(scale, std::fabs(values[i]));
  }
  for (float& scale : scales) scale = scale > 0 && std::isfinite(scale) ? scale / max : 1.0f;
  return scales;
}

template <class T>
Tensor quantized_values(const Tensor& weights, const Blocks& blocks,
                        const std::vector<float>& scales, float max) {
  const Tensor small(kDTypeOf<T>, weights.shape());
  const auto from = weights.values<float>();
  const auto to = small.values<T>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float scaled = from[i] / scales[blocks(static_cast<std::int64_t>(i))];
    const float clamped = std::isnan(scaled) ? 0 : std::clamp(std::nearbyint(scaled), -max, max);
    to[i] = static_cast<T>(static_cast<int>(clamped));
  }
  return small;
}

// Reduces scales where that lowers the squared error: with few levels, clipping the largest value
// can pay off.
void tune_scales(const Tensor& weights, const Blocks& blocks, float max,
                 std::vector<float>& scales) {
  const auto values = weights.values<float>();
  const std::vector<float> initial = scales;
  std::vector<double> min(scales.size(), std::numeric_limits<double>::infinity());
  for (const float share : {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f}) {
    std::vector<double> off(scales.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = blocks(static_cast<std::int64_t>(i));
      const float scale = initial[at] * share;
      const float clamped = std::clamp(std::nearbyint(values[i] / scale), -max, max);
      const double error = static_cast<double>(values[i] - clamped * scale);
      off[at] += error * error;
    }
    for (std::size_t i = 0; i < scales.size(); ++i)
      if (off[i] < min[i]) min[i] = off[i], scales[i] = initial[i] * share;
  }
}

}  // namespace

QuantizedWeights int8_weights(const Tensor& weights, int axis) {
  const Shape& shape = weights.shape();
  const Blocks blocks{shape[axis], shape.size(axis + 1, shape.rank()), 1, shape[axis], true};
  const std::vector<float> scales =
      scales_of(weights, blocks, static_cast<std::size_t>(shape[axis]), 127);
  return {quantized_values<std::int8_t>(weights, blocks, scales, 127),
          Tensor::of(std::span<const float>(scales)), axis, 0};
}

QuantizedWeights int4_weights(const Tensor& weights, int axis, std::int64_t block) {
  Shape shape = weights.shape();
  const std::int64_t parts = shape[axis] / block + (shape[axis] % block != 0 ? 1 : 0);
  const Blocks blocks{shape[axis], shape.size(axis + 1, shape.rank()), block, parts, false};
  shape[axis] = parts;
  std::vector<float> scales = scales_of(weights, blocks, static_cast<std::size_t>(shape.size()), 7);
  tune_scales(weights, blocks, 7, scales);
  return {quantized_values<Int4>(weights, blocks, scales, 7),
          Tensor::of(std::span<const float>(scales)).reshaped(shape), axis, block};
}

QuantizedWeights fp8_weights(const Tensor& weights) {
  float max = 0;
  for (const float x : weights.values<float>()) max = std::max(max, std::fabs(x));
  const float scale = max > 0 && std::isfinite(max) ? max / kMaxFp8 : 1.0f;
  const Tensor small(DType::f8e4m3fn, weights.shape());
  const auto from = weights.values<float>();
  const auto to = small.values<Float8E4M3FN>();
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = Float8E4M3FN(std::clamp(from[i] / scale, -kMaxFp8, kMaxFp8));
  return {small, Tensor::of(scale), -1, 0};
}

}  // namespace sluice::engine
