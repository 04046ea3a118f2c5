// The number of inputs of ONNX's operators.
#pragma once

#include "engine/graph/graph.h"

namespace sluice::engine {

// Throws invalid_argument with node and numbers if a node has inputs that no version of its
// operator reads. The passes rely on it: they give a third input of MatMul another meaning.
void check_inputs(const Node& node);

}  // namespace sluice::engine
