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

// Of a value in a specialized graph.
TensorType type_of(const Value& value);

// Operators that may differ from run to run.
bool is_random(const Node& node);

// Reshape, Squeeze and their kin make nothing new, so that no kernel is needed.
bool is_view(const Node& node);

}  // namespace sluice::engine
