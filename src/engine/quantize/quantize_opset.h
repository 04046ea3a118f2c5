// Converts a graph to a newer ONNX opset.
#pragma once

#include "engine/graph/graph.h"

namespace sluice::engine {

// Converts all nodes of the ONNX domain to version `to`, also in subgraphs, and moves attributes
// that became inputs. Throws unavailable with the node if the semantics of an operator have
// changed.
void raise_opset(Graph& graph, int to);

// The newest opset version among its nodes.
int opset_of(const Graph& graph);

}  // namespace sluice::engine
