// How much a node of a specialized graph computes.
#pragma once

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Products, convolutions, attention and recurrent layers exactly, a multiplication and an
// addition as two; pools by what they look at; others one for each element; 0 for what only
// moves data.
double flops(const Graph& graph, const Node& node);
double flops(const Graph& graph);

}  // namespace sluice::engine
