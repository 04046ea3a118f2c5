// A Conv or pool of fused.h as numbers.
#pragma once

#include <optional>

#include "engine/exec/cuda/nodes/node_view.h"
#include "kernels/conv/conv.h"

namespace sluice::engine::cuda {

// Nothing where a number does not fit an int.
std::optional<Sliding> sliding_of(const Site& site, std::int64_t rows, std::int64_t columns);

// MaxPool and AveragePool of fused.h.
std::unique_ptr<Kernel> make_pool(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cuda
