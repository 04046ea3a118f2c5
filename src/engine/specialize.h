// A graph for inputs whose shapes are known: every size in it is a number, and what depends
// on shapes and constants alone is computed.
#pragma once

#include <span>

#include "compute/workers.h"
#include "engine/graph.h"
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

// Throws unavailable, with node and reason, where shapes depend on what the inputs hold, or
// where a value is no tensor: such a graph runs node by node.
Graph specialize(const Graph& graph, std::span<const TensorType> inputs, compute::Workers& workers);

}  // namespace sluice::engine
