// A graph for inputs whose shapes are known: every size in it is a number, and what depends
// on shapes and constants alone is computed.
#pragma once

#include <span>

#include "compute/workers.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Throws unavailable, with node and reason, where shapes depend on what the inputs hold, or
// where a value is no tensor: such a graph runs node by node.
Graph specialize(const Graph& graph, std::span<const TensorType> inputs, compute::Workers& workers);

}  // namespace sluice::engine
