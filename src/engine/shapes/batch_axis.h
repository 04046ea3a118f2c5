// Determines whether the items of a batch are independent, so that the batch may be split.
#pragma once

#include <span>

#include "engine/graph/tensor_type.h"
#include "engine/shapes/batch_split.h"

namespace sluice::engine {

// The inputs whose first dimension has the same symbol as that of the first input. None if that
// dimension has no symbol, if the symbol names another dimension too, or if an input has no known
// shape.
std::optional<BatchInputs> batch_inputs_of(const Graph& graph, std::span<const TensorType> inputs);

// True if provable: every operator that depends on such an input is known to keep batch items
// independent, and every output has the batch axis first. Checked by specializing the graph at two
// batch sizes, which also finds values derived from the batch size. False if unknown.
bool batch_is_independent(const Graph& graph, std::span<const TensorType> inputs,
                          const BatchInputs& batch, compute::Workers& workers);

}  // namespace sluice::engine
