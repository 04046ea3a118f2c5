// Converts single elementwise ONNX operators to chains.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/fused_ops.h"
#include "engine/graph/graph.h"

namespace sluice::engine::cpu {

struct Single {
  Chain chain;
  std::vector<std::size_t> inputs;  // the node's inputs that the chain reads
};

// None if chains do not support the operator or its attributes.
std::optional<Single> as_chain(const Node& node);

}  // namespace sluice::engine::cpu
