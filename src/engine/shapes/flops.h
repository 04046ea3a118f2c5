// Floating-point operations of the nodes of a specialized graph.
#pragma once

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// Exact for GEMMs, convolutions, attention and recurrent layers, with a multiply-add as two; pools
// count their window, other operators one per element, data movement 0.
double flops(const Graph& graph, const Node& node);
double flops(const Graph& graph);

}  // namespace sluice::engine
