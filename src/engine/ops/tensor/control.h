// Helpers of operators with subgraphs.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// The subgraph of an attribute; throws if missing.
const Graph& subgraph_of(const OpCall& call, std::string_view attribute);

// Stacks tensors along a new first axis. Without tensors: no rows, with the type of `like`.
Tensor stack(const std::vector<Tensor>& items, const Value& like, compute::Workers& workers);

}  // namespace sluice::engine
