// Elementwise operators of ONNX as chains of their own.
#pragma once

#include <optional>
#include <vector>

#include "engine/graph/fused_ops.h"
#include "engine/graph/graph.h"

namespace sluice::engine::cpu {

struct Single {
  Chain chain;
  std::vector<std::size_t> inputs;  // of the node, that are the chain's
};

// None where it is another operator, or one with settings that no chain has.
std::optional<Single> as_chain(const Node& node);

}  // namespace sluice::engine::cpu
