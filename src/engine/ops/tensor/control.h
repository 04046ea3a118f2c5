// What nodes that run other graphs share.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// The graph an attribute holds; throws where there is none.
const Graph& body_of(const OpCall& call, std::string_view attribute);

// The tensors as rows of one. Where there are none: no rows, of what `like` says.
Tensor stacked(const std::vector<Tensor>& items, const Value& like, compute::Workers& workers);

}  // namespace sluice::engine
