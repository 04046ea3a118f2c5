// Head layout and math shared by the attention operators.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/op.h"

namespace sluice::engine {

// The layout of heads in memory: [batch, heads, length, size] or [batch, length, heads * size].
struct HeadLayout {
  std::int64_t batch, count, length, size;
  bool packed;

  // `count` is the number of heads of a tensor with three axes.
  static HeadLayout of(const Shape& shape, std::int64_t count, std::string_view name) {
    if (shape.rank() == 4) return {shape[0], shape[1], shape[2], shape[3], false};
    require(
        shape.rank() == 3 && count > 0 && count <= std::max<std::int64_t>(shape[2], 1) &&
            shape[2] % count == 0,
        std::string(name) + " of " + to_string(shape) + " in " + std::to_string(count) + " heads");
    return {shape[0], count, shape[1], shape[2] / count, true};
  }

  std::int64_t at(std::int64_t image, std::int64_t head, std::int64_t token) const {
    return packed ? ((image * length + token) * count + head) * size
                  : ((image * count + head) * length + token) * size;
  }
};

// Accumulates in eight independent sums, for SIMD.
template <class W>
W dot(const W* a, const W* b, std::int64_t count) {
  W sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  W sum = 0;
  for (const W part : sums) sum += part;
  return sum;
}

template <class W>
void softmax(W* row, std::int64_t count) {
  const W max = count > 0 ? *std::max_element(row, row + count) : W(0);
  W sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += row[i] = std::exp(row[i] - max);
  for (std::int64_t i = 0; i < count; ++i) row[i] /= sum;
}

// The scale of the scores.
inline double attention_scale(const Attributes& attributes, std::int64_t size) {
  const float* const given = attributes.find<float>("scale");
  return given != nullptr ? static_cast<double>(*given) : 1 / std::sqrt(static_cast<double>(size));
}

}  // namespace sluice::engine
