#include "engine/ops/tensor/gather_indices.h"

#include "engine/ops/axes.h"

namespace sluice::engine {

std::vector<std::int64_t> gather_offsets(const OpCall& call, std::size_t input, const Shape& data,
                                         int axis) {
  const Shape& shape = call.input(input).shape();
  require(shape.rank() == data.rank(), "data and indices differ in rank");
  for (int i = 0; i < shape.rank(); ++i)
    require(i == axis || shape[i] <= data[i],
            "indices " + to_string(shape) + " go beyond the data " + to_string(data));
  std::vector<std::int64_t> offsets = call.integers(input);
  const Strides strides = strides_of(data);
  Strides index{};
  for (std::int64_t& offset : offsets) {
    offset = resolve_index(offset, data[axis]) * at(strides, axis);
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) offset += at(index, i) * at(strides, i);
    for (int i = shape.rank() - 1; i >= 0; --i) {
      auto& now = index[static_cast<std::size_t>(i)];
      if (++now < shape[i]) break;
      now = 0;
    }
  }
  return offsets;
}

GatherNdOffsets gather_nd_offsets(const OpCall& call, std::size_t input, const Shape& data,
                                  int batch_dims) {
  Shape tuples = call.input(input).shape();
  require(tuples.rank() >= 1, "the indices are a scalar");
  for (int i = 0; i < batch_dims; ++i)
    require(data[i] == tuples[i],
            "data and indices differ in batch dimension " + std::to_string(i));
  const std::int64_t width = tuples[tuples.rank() - 1];
  require(width <= data.rank() - batch_dims,
          "tuples of " + std::to_string(width) + " indices into " + to_string(data));
  tuples.erase(tuples.rank() - 1);
  require(width > 0 || checked_size(tuples.dims()) < (1 << 24), "too many tuples of nothing");
  const int depth = static_cast<int>(width);
  const std::vector<std::int64_t> indices = call.integers(input);
  const Strides strides = strides_of(data);
  const std::int64_t count = tuples.size(), in_batch = tuples.size(batch_dims, tuples.rank());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& offset = offsets[static_cast<std::size_t>(i)];
    offset = i / in_batch * data.size(batch_dims, data.rank());
    for (int d = 0; d < depth; ++d) {
      const std::int64_t index = indices[static_cast<std::size_t>(i * width + d)];
      offset += resolve_index(index, data[batch_dims + d]) * at(strides, batch_dims + d);
    }
  }
  return {std::move(offsets), tuples, batch_dims + depth};
}

}  // namespace sluice::engine
