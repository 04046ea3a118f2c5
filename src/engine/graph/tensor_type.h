// The element type and shape of a value in a specialized graph.
#pragma once

#include "engine/graph/graph.h"
#include "tensor/byte_size.h"

namespace sluice::engine {

struct TensorType {
  DType dtype = DType::none;
  Shape shape;

  std::size_t bytes() const { return byte_size(shape, dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// The type of a value in a specialized graph.
TensorType type_of(const Value& value);

// Operators whose results may differ between runs.
bool is_random(const Node& node);

// Reshape, Squeeze and similar operators share their input's data and need no kernel.
bool is_view(const Node& node);

}  // namespace sluice::engine
