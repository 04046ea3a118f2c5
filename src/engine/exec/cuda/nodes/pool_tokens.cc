// Token pooling of packed sequences.
#include "kernels/reduce/pool_tokens.h"

#include <limits>

#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cuda {
namespace {

std::unique_ptr<Kernel> make_pool_tokens(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0), cu_seqlens = view.in(1);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (!is_computed_real(x.dtype) || view.out(0).dtype != DType::f32 || x.shape.rank() != 3 ||
      x.shape[0] != 1 || x.shape.size() == 0 || x.shape[1] > kMost || x.shape[2] > kMost ||
      cu_seqlens.dtype != DType::i32 || cu_seqlens.shape.rank() != 1 || cu_seqlens.shape[0] < 2)
    return nullptr;
  PoolTokensCall call{};
  call.pooling = token_pooling_of(node.attributes);
  call.normalize = view.attributes().flag("normalize");
  call.tokens = static_cast<int>(x.shape[1]);
  call.n = static_cast<int>(x.shape[2]);
  call.sequences = static_cast<int>(cu_seqlens.shape[0] - 1);
  std::string name = "token pooling, " + std::string(to_string(call.pooling));
  if (call.normalize) name += " + L2 norm";
  return launched(std::move(name), [call, type = real_type(x.dtype)](const KernelArgs& args) {
    PoolTokensCall now = call;
    now.x = args.inputs[0];
    now.cu_seqlens = static_cast<const std::int32_t*>(args.inputs[1]);
    now.out = static_cast<float*>(args.outputs[0]);
    pool_tokens(type, now, args);
  });
}

constexpr Maker kTokenMakers[] = {{"PoolTokens", kFused, make_pool_tokens}};

}  // namespace

std::span<const Maker> token_kernels() { return kTokenMakers; }

}  // namespace sluice::engine::cuda
