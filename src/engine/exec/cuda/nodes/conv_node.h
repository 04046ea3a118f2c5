// The window of a fused Conv or pool node for CUDA kernels.
#pragma once

#include <optional>

#include "engine/exec/cuda/nodes/node_view.h"
#include "kernels/conv/conv.h"

namespace sluice::engine::cuda {

// None if a size does not fit an int.
std::optional<SlidingWindow> sliding_of(const NodeView& view, std::int64_t rows,
                                        std::int64_t columns);

// The fused MaxPool and AveragePool.
std::unique_ptr<Kernel> make_pool(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cuda
