// A graph in a newer version of ONNX's operators.
#pragma once

#include "engine/graph/graph.h"

namespace sluice::engine {

// All nodes of ONNX's own domain are of version `to` afterwards, those in bodies too. What moved
// from an attribute to an input is moved. Throws unavailable, naming the node, where an operator
// has come to mean something else.
void raise_opset(Graph& graph, int to);

// The newest version that one of its nodes is of.
int opset_of(const Graph& graph);

}  // namespace sluice::engine
