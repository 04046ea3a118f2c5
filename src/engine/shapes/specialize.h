// Specializes a graph for given input shapes: all shapes are inferred, and values that depend only
// on shapes and constants are folded.
#pragma once

#include <span>

#include "compute/workers.h"
#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Throws unavailable with node and reason if shapes are data-dependent or a value is not a tensor;
// such a graph runs in the interpreter.
Graph specialize(const Graph& graph, std::span<const TensorType> inputs, compute::Workers& workers);

}  // namespace sluice::engine
