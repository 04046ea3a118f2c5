#include "engine/ops/operators.h"

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine {
namespace cuda {
namespace {

std::vector<std::span<const Maker>> families() {
  return {gemm_kernels(),  conv_kernels(),        norm_kernels(),          attention_kernels(),
          chain_kernels(), elementwise_kernels(), data_movement_kernels(), reduce_kernels(),
          rnn_kernels(),   quantized_kernels(),   token_kernels()};
}

}  // namespace

std::unique_ptr<Kernel> make_kernel(const Graph& graph, const Node& node, Context& context) {
  for (const std::span<const Maker> family : families())
    for (const Maker& maker : family)
      if (maker.op == node.op && maker.domain == node.domain)
        if (auto kernel = maker.make(graph, node, context)) return kernel;
  return nullptr;
}

}  // namespace cuda

std::optional<std::vector<CudaOperator>> cuda_operators() {
  std::vector<CudaOperator> list;
  for (const std::span<const cuda::Maker> family : cuda::families())
    for (const cuda::Maker& maker : family) list.push_back({maker.op, maker.domain});
  return list;
}

}  // namespace sluice::engine
