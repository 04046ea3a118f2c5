// MaxPool, AveragePool and means over images with the channels last.
#include "engine/exec/cpu/pool.h"

#include <algorithm>

#include "engine/exec/cpu/image_window.h"
#include "engine/exec/cpu/nodes.h"
#include "kernels/common/each_task.h"

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
                         .window = image_window(node.attributes, x.shape, kernel[0], kernel[1]),
                         .counts_padding = node.attributes.flag("count_include_pad")};
  return std::make_unique<PoolKernel>(what, context);
}

// Without edges, over all of the image.
std::unique_ptr<Kernel> make_whole(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const auto axes = node.attributes.integers("axes");
  if (!is_f32(x) || x.shape.rank() != 4 || x.shape.size() == 0 || axes.size() != 2 ||
      axes[0] != 1 || axes[1] != 2 || node.inputs.size() > 1)
    return nullptr;
  const ChannelWise what{.kind = ChannelWise::Kind::mean,
                         .window = image_window(Attributes(), x.shape, x.shape[1], x.shape[2])};
  return std::make_unique<PoolKernel>(what, context);
}

}  // namespace

void each_row(compute::Workers& workers, const ChannelWise& what, const float* x,
              const float* residual, float* y) {
  constexpr std::int64_t kWork = 1 << 14;      // values worth another thread
  constexpr std::int64_t kTasksPerThread = 4;  // neighbours see the same rows
  const ImageWindow& w = what.window;
  const std::int64_t work = w.wide.out * w.channels * w.high.kernel * w.wide.kernel;
  const std::int64_t rows = w.batch * w.high.out;
  const std::int64_t tasks = std::clamp<std::int64_t>(
      rows * work / kWork, 1, std::min(rows, workers.threads() * kTasksPerThread));
  each_task(workers, static_cast<std::size_t>(tasks), [&](std::size_t at, std::size_t) {
    const auto task = static_cast<std::int64_t>(at);
    for (std::int64_t row = rows * task / tasks; row < rows * (task + 1) / tasks; ++row)
      run(what, row, x, residual, y);
  });
}

std::unique_ptr<Kernel> make_max_pool(const Graph& graph, const Node& node, Context& context) {
  return make(graph, node, context, ChannelWise::Kind::largest);
}
std::unique_ptr<Kernel> make_image_mean(const Graph& graph, const Node& node, Context& context) {
  return make_whole(graph, node, context);
}
std::unique_ptr<Kernel> make_average_pool(const Graph& graph, const Node& node, Context& context) {
  return make(graph, node, context, ChannelWise::Kind::mean);
}

}  // namespace sluice::engine::cpu
