// Pooling kernels, and the loop over image rows that depthwise convolution shares.
#pragma once

#include "engine/exec/cpu/backend.h"
#include "kernels/conv/channelwise_cpu.h"

namespace sluice::engine::cpu {

// Runs `what` over all rows on all threads.
void for_each_row(compute::Workers& workers, const ChannelWise& what, const float* x,
                  const float* residual, float* y);

std::unique_ptr<Kernel> make_max_pool(const Graph& graph, const Node& node, Context& context);
// ReduceMean over height and width.
std::unique_ptr<Kernel> make_image_mean(const Graph& graph, const Node& node, Context& context);
std::unique_ptr<Kernel> make_average_pool(const Graph& graph, const Node& node, Context& context);

}  // namespace sluice::engine::cpu
