// MaxPool and AveragePool over images with the channels last.
#include "engine/cpu/pool.h"

namespace sluice::engine::cpu {
namespace {

class PoolKernel final : public Kernel {
 public:
  PoolKernel(const ChannelWise& what, Context& context) : workers_(context.workers), what_(what) {}

  void run(const KernelArgs& args) const override {
    each_row(workers_, what_, floats(args, 0), nullptr, static_cast<float*>(args.outputs[0]));
  }
  std::string_view what() const override {
    return what_.kind == ChannelWise::Kind::mean ? "means by channel" : "largest by channel";
  }

 private:
  compute::Workers& workers_;
  ChannelWise what_;
};

std::unique_ptr<Kernel> make(const Graph& graph, const Node& node, Context& context,
                             ChannelWise::Kind kind) {
  const TensorType x = input_type(graph, node, 0);
  const auto kernel = node.attributes.integers("kernel");
  if (!is_f32(x) || x.shape.rank() != 4 || kernel.size() != 2) return nullptr;
  const ChannelWise what{.kind = kind,
                         .window = {node.attributes, x.shape, kernel[0], kernel[1]},
                         .counts_padding = node.attributes.flag("count_include_pad")};
  return std::make_unique<PoolKernel>(what, context);
}

}  // namespace

void each_row(compute::Workers& workers, const ChannelWise& what, const float* x,
              const float* residual, float* y) {
  constexpr std::int64_t kWork = 1 << 14;  // values worth another thread
  const ImageWindow& w = what.window;
  const std::int64_t work = w.wide.out * w.channels * w.high.kernel * w.wide.kernel;
  const auto grain = static_cast<std::size_t>(1 + kWork / std::max<std::int64_t>(1, work));
  workers.each(static_cast<std::size_t>(w.batch * w.high.out), grain,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row)
                   run(what, static_cast<std::int64_t>(row), x, residual, y);
               });
}

std::unique_ptr<Kernel> make_max_pool(const Graph& graph, const Node& node, Context& context) {
  return make(graph, node, context, ChannelWise::Kind::largest);
}
std::unique_ptr<Kernel> make_average_pool(const Graph& graph, const Node& node, Context& context) {
  return make(graph, node, context, ChannelWise::Kind::mean);
}

}  // namespace sluice::engine::cpu
