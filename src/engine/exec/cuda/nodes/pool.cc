#include <limits>

#include "engine/exec/cuda/nodes/conv_node.h"

namespace sluice::engine::cuda {
namespace {

std::optional<PoolType> pool_type(DType type, bool maximum) {
  switch (type) {
    case DType::f32: return PoolType::f32;
    case DType::f16: return PoolType::f16;
    case DType::bf16: return PoolType::bf16;
    case DType::u8: return maximum ? std::optional(PoolType::u8) : std::nullopt;
    case DType::i8: return maximum ? std::optional(PoolType::i8) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<SlidingWindow> sliding_of(const NodeView& view, std::int64_t rows,
                                        std::int64_t columns) {
  const Shape x = view.in(0).shape, y = view.out(0).shape;
  const auto strides = view.attributes().integers("strides", {1, 1});
  const auto dilations = view.attributes().integers("dilations", {1, 1});
  const auto pads = view.attributes().integers("pads", {0, 0, 0, 0});
  if (x.rank() != 4 || y.rank() != 4 || strides.size() != 2 || dilations.size() != 2 ||
      pads.size() != 4)
    return std::nullopt;
  SlidingWindow made;
  const std::pair<int*, std::int64_t> all[] = {
      {&made.batch, x[0]},
      {&made.height, x[1]},
      {&made.width, x[2]},
      {&made.out_height, y[1]},
      {&made.out_width, y[2]},
      {&made.rows, rows},
      {&made.columns, columns},
      {&made.stride_y, strides[0]},
      {&made.stride_x, strides[1]},
      {&made.dilation_y, dilations[0]},
      {&made.dilation_x, dilations[1]},
      {&made.top, pads[0]},
      {&made.left, pads[1]},
  };
  for (const auto& [to, value] : all) {
    if (value < 0 || value > std::numeric_limits<int>::max() / 2) return std::nullopt;
    *to = static_cast<int>(value);
  }
  return made;
}

std::unique_ptr<Kernel> make_pool(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0);
  const auto kernel = view.attributes().integers("kernel");
  const std::optional<PoolType> type = pool_type(x.dtype, node.op == "MaxPool");
  if (!type || kernel.size() != 2) return nullptr;
  const std::optional<SlidingWindow> window = sliding_of(view, kernel[0], kernel[1]);
  if (!window || x.shape[3] > std::numeric_limits<int>::max()) return nullptr;
  const PoolCall call{.type = *type,
                      .window = *window,
                      .channels = static_cast<int>(x.shape[3]),
                      .maximum = node.op == "MaxPool",
                      .counts_padding = view.attributes().flag("count_include_pad")};
  return launched(call.maximum ? "max pool" : "average pool", [call](const KernelArgs& args) {
    PoolCall now = call;
    now.x = args.inputs[0];
    now.y = args.outputs[0];
    enqueue_pool(now, static_cast<CUstream_st*>(args.stream));
  });
}

}  // namespace sluice::engine::cuda
