#include "kernels/reduce/pool_tokens.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/graph/fused_ops.h"
#include "kernels/common/each_task.h"

namespace sluice::engine::cpu {
namespace {

class PoolTokensKernel final : public Kernel {
 public:
  PoolTokensKernel(Context& context, const Node& node, const Shape& x, std::int64_t sequences)
      : workers_(context.workers),
        pooling_(token_pooling_of(node.attributes)),
        normalize_(node.attributes.flag("normalize")),
        tokens_(static_cast<std::int32_t>(x[1])),
        n_(static_cast<std::size_t>(x[2])),
        sequences_(static_cast<std::size_t>(sequences)),
        name_("token pooling, " + std::string(to_string(pooling_))) {
    if (normalize_) name_ += " + L2 norm";
  }

  void run(const KernelArgs& args) const override {
    const auto* const cu_seqlens = static_cast<const std::int32_t*>(args.inputs[1]);
    auto* const out = static_cast<float*>(args.outputs[0]);
    each_task(workers_, sequences_, [&](std::size_t i, std::size_t) {
      const std::int32_t begin = std::clamp(cu_seqlens[i], 0, tokens_);
      const std::int32_t end = std::clamp(cu_seqlens[i + 1], begin, tokens_);
      pool_tokens(pooling_, normalize_, floats(args, 0) + static_cast<std::size_t>(begin) * n_,
                  static_cast<std::size_t>(end - begin), n_, out + i * n_);
    });
  }
  std::string_view name() const override { return name_; }

 private:
  compute::Workers& workers_;
  kernels::TokenPooling pooling_;
  bool normalize_;
  std::int32_t tokens_;
  std::size_t n_, sequences_;
  std::string name_;
};

std::unique_ptr<Kernel> make_pool_tokens(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0), cu_seqlens = input_type(graph, node, 1);
  if (!is_f32(x) || x.shape.rank() != 3 || x.shape[0] != 1 || x.shape.size() == 0 ||
      x.shape[1] > std::numeric_limits<std::int32_t>::max() || cu_seqlens.dtype != DType::i32 ||
      cu_seqlens.shape.rank() != 1 || cu_seqlens.shape[0] < 2)
    return nullptr;
  return std::make_unique<PoolTokensKernel>(context, node, x.shape, cu_seqlens.shape[0] - 1);
}

constexpr Maker kTokenMakers[] = {{"PoolTokens", kFused, make_pool_tokens}};

}  // namespace

std::span<const Maker> token_kernels() { return kTokenMakers; }

}  // namespace sluice::engine::cpu
