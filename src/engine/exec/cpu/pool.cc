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
    for_each_row(workers_, what_, floats(args, 0), nullptr, static_cast<float*>(args.outputs[0]));
  }
  std::string_view name() const override {
    return what_.kind == ChannelWise::Kind::average_pool ? "average pool" : "max pool";
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

// A global average pool.
std::unique_ptr<Kernel> make_global_mean(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const auto axes = node.attributes.integers("axes");
  if (!is_f32(x) || x.shape.rank() != 4 || x.shape.size() == 0 || axes.size() != 2 ||
      axes[0] != 1 || axes[1] != 2 || node.inputs.size() > 1)
    return nullptr;
  const ChannelWise what{.kind = ChannelWise::Kind::average_pool,
                         .window = image_window(Attributes(), x.shape, x.shape[1], x.shape[2])};
  return std::make_unique<PoolKernel>(what, context);
}

}  // namespace

void for_each_row(compute::Workers& workers, const ChannelWise& what, const float* x,
                  const float* residual, float* y) {
  constexpr std::int64_t kWork = 1 << 14;      // minimum values for another thread
  constexpr std::int64_t kTasksPerThread = 4;  // adjacent rows share input rows
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
  return make(graph, node, context, ChannelWise::Kind::max_pool);
}
std::unique_ptr<Kernel> make_image_mean(const Graph& graph, const Node& node, Context& context) {
  return make_global_mean(graph, node, context);
}
std::unique_ptr<Kernel> make_average_pool(const Graph& graph, const Node& node, Context& context) {
  return make(graph, node, context, ChannelWise::Kind::average_pool);
}

}  // namespace sluice::engine::cpu
