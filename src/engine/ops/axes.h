// Axes, sizes and strides from operators' attributes and inputs.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

using Strides = std::array<std::int64_t, kMaxDims>;

// Row-major strides, in elements.
inline Strides strides_of(const Shape& shape) {
  Strides strides{};
  std::uint64_t stride = 1;  // may wrap around if another axis is empty
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[axis]);
  }
  return strides;
}

inline std::int64_t at(const Strides& strides, int axis) {
  return strides[static_cast<std::size_t>(axis)];
}

// A list that is an attribute in older opsets and an input in newer ones; none if omitted.
inline std::optional<std::vector<std::int64_t>> list_of(const OpCall& call, std::size_t input,
                                                        std::string_view attribute) {
  if (call.has(input)) return call.integers(input);
  if (call.attributes().has(attribute)) return call.attributes().integers(attribute);
  return std::nullopt;
}

// Non-negative axes without duplicates.
inline std::vector<int> resolve_axes(std::span<const std::int64_t> axes, int rank) {
  std::vector<int> resolved;
  std::uint32_t seen = 0;
  for (const std::int64_t axis : axes) {
    const int one = resolve_axis(axis, rank);
    require((seen >> one & 1u) == 0, "axis " + std::to_string(axis) + " is named twice");
    seen |= 1u << one;
    resolved.push_back(one);
  }
  return resolved;
}

inline std::vector<int> all_axes(int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// The one integer of an input.
inline std::int64_t integer_of(const OpCall& call, std::size_t input) {
  const std::vector<std::int64_t> list = call.integers(input);
  require(list.size() == 1, "input " + std::to_string(input) + " must have one element, not " +
                                std::to_string(list.size()));
  return list[0];
}

// The one truth value of an input.
inline bool flag_of(const OpCall& call, std::size_t input) {
  const Tensor& tensor = call.input(input);
  require(tensor.dtype() == DType::boolean && tensor.size() == 1,
          "input " + std::to_string(input) + " must be one boolean");
  return tensor.values<bool>()[0];
}

// Resolves a negative index from the end; throws if it is out of range.
inline std::int64_t resolve_index(std::int64_t index, std::int64_t size) {
  require(index >= -size && index < size,
          "index " + std::to_string(index) + " of " + std::to_string(size));
  return index < 0 ? index + size : index;
}

// A shape from a model, with rank and size checked.
inline Shape checked_shape(std::span<const std::int64_t> dims) {
  const Shape shape(dims);
  checked_size(dims);
  return shape;
}

}  // namespace sluice::engine
