// Pad and Resize: a table for each axis maps output positions to input positions.
#include <algorithm>
#include <climits>
#include <cstring>

#include "compute/workers.h"
#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/ops/op.h"
#include "engine/ops/vision/resize_plan.h"
#include "kernels/data_movement/resize.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

// For each axis of the output: the source index of each position; -1: the fill value.
using Tables = std::vector<std::vector<std::int64_t>>;

// Copies the values to the device.
template <class T>
ConstMemory uploaded(Context& context, const std::vector<T>& values) {
  Tensor tensor(DType::u8, {static_cast<std::int64_t>(std::span(values).size_bytes())});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), tensor.bytes());
  return context.constant(tensor);
}

struct TablePlan {
  IndexTableCopyCall move{};
  ConstMemory tables, fill;  // fill: null for zeros
  int fill_input = -1;       // the input with the fill value; -1: `fill`
};

std::unique_ptr<Kernel> by_tables(std::string name, const NodeView& view, const Tables& tables,
                                  ConstMemory fill, int fill_input, Context& context) {
  const TensorType in = view.in(0), out = view.out(0);
  if (!is_copyable(in) || !is_copyable(out) || out.shape.rank() > kMaxCopyAxes) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  TablePlan plan{{}, nullptr, std::move(fill), fill_input};
  IndexTableCopyCall& move = plan.move;
  move.width = width_of(in);
  move.rank = out.shape.rank();
  move.total = out.shape.size();
  const auto strides = strides_of(in.shape);
  std::vector<std::int32_t> all;
  for (int axis = 0; axis < move.rank; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    move.size[axis] = Divisor(out.shape[axis]);
    move.table[axis] = static_cast<int>(all.size());
    for (const std::int64_t from : tables[a])
      all.push_back(from < 0 ? -1 : static_cast<std::int32_t>(from * strides[a]));
  }
  plan.tables = uploaded(context, all);
  move.tables = static_cast<const std::int32_t*>(plan.tables.get());
  const std::uint32_t reads = 1u | (fill_input > 0 ? 1u << fill_input : 0u);
  return launched(
      std::move(name),
      [plan](const KernelArgs& args) {
        IndexTableCopyCall now = plan.move;
        now.from = args.inputs[0];
        now.to = args.outputs[0];
        now.fill = plan.fill_input >= 0 ? args.inputs[static_cast<std::size_t>(plan.fill_input)]
                                        : plan.fill.get();
        run_index_table_copy(now, args);
      },
      reads);
}

enum class PadMode { constant, reflect, edge, wrap };

std::optional<PadMode> pad_mode(const NodeView& view) {
  const std::string name = view.attributes().string("mode", "constant");
  if (name == "constant") return PadMode::constant;
  if (name == "reflect") return PadMode::reflect;
  if (name == "edge") return PadMode::edge;
  if (name == "wrap") return PadMode::wrap;
  return std::nullopt;
}

// The source index of position `i`, which may be outside of [0, size).
std::int64_t stands_at(PadMode mode, std::int64_t i, std::int64_t size) {
  if (mode == PadMode::constant) return i >= 0 && i < size ? i : -1;
  if (mode == PadMode::edge) return std::clamp<std::int64_t>(i, 0, size - 1);
  if (mode == PadMode::wrap) return (i % size + size) % size;
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1), phase = (i % period + period) % period;
  return phase < size ? phase : period - phase;
}

// Negative pads crop first; the mode then extends the cropped axis.
std::vector<std::int64_t> pad_table(PadMode mode, std::int64_t size, std::int64_t before,
                                    std::int64_t after) {
  const std::int64_t cut = std::max<std::int64_t>(0, -before);
  const std::int64_t left = size - cut - std::max<std::int64_t>(0, -after);
  std::vector<std::int64_t> table;
  for (std::int64_t i = 0; i < size + before + after; ++i) {
    const std::int64_t at = stands_at(mode, i - std::max<std::int64_t>(0, before), left);
    table.push_back(at < 0 ? -1 : cut + at);
  }
  return table;
}

std::unique_ptr<Kernel> pad(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const TensorType in = view.in(0);
  const int rank = in.shape.rank();
  const auto pads = view.list(1, view.version() < 2 ? "paddings" : "pads");
  const auto axes = view.integers(3);
  const auto mode = pad_mode(view);
  if (!pads || !mode || (view.has(3) && !axes) || in.shape.size() == 0) return nullptr;
  std::vector<std::int64_t> before(static_cast<std::size_t>(rank)), after(before);
  const std::size_t count = axes ? axes->size() : static_cast<std::size_t>(rank);
  if (pads->size() != 2 * count) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = axes ? static_cast<std::size_t>(resolve_axis((*axes)[i], rank)) : i;
    before[axis] = (*pads)[i];
    after[axis] = (*pads)[i + count];
  }
  Tables tables;
  for (int i = 0; i < rank; ++i) {
    const auto a = static_cast<std::size_t>(i);
    tables.push_back(pad_table(*mode, in.shape[i], before[a], after[a]));
  }
  const float value = view.attributes().real("value", 0);
  if (value != 0 && in.dtype != DType::f32) return nullptr;
  ConstMemory fill = value != 0 ? uploaded(context, std::vector<float>{value}) : nullptr;
  return by_tables("pad", view, tables, std::move(fill), view.has(2) ? 2 : -1, context);
}

// The plan of the CPU operator, from shapes and constants.
std::optional<ResizePlan> plan_of(const NodeView& view) {
  struct Nowhere final : OutputSink {
    Tensor allocate(std::size_t, DType dtype, const Shape& shape) override {
      return {dtype, shape};
    }
    void set(std::size_t, const Datum&) override {}
  };
  std::vector<Datum> inputs(view.inputs());
  inputs[0] = Tensor::view(view.in(0).dtype, view.in(0).shape, nullptr, nullptr);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (!view.has(i)) continue;
    if (!view.constant(i)) return std::nullopt;
    inputs[i] = view.constant(i);
  }
  Nowhere nowhere;
  compute::Workers alone(1);
  const OpCall call(view.node(), inputs, nowhere, alone);
  return resize_plan(call);
}

std::unique_ptr<Kernel> nearest(const NodeView& view, const ResizePlan& plan, Context& context) {
  Tables tables;
  const Shape in = view.in(0).shape;
  for (int i = 0; i < in.rank(); ++i) {
    std::vector<std::int64_t>& table = tables.emplace_back();
    for (std::int64_t k = 0; k < in[i]; ++k) table.push_back(k);
  }
  for (const ResizedAxis& axis : plan.axes) {
    std::vector<std::int64_t> table;
    for (std::size_t k = 0; k < axis.first.size(); ++k)
      table.push_back(
          axis.outside_roi[k] ? -1 : std::clamp<std::int64_t>(axis.first[k], 0, axis.from - 1));
    tables[static_cast<std::size_t>(axis.axis)] = std::move(table);
  }
  if (plan.extrapolation != 0 && view.in(0).dtype != DType::f32) return nullptr;
  ConstMemory fill =
      plan.extrapolation != 0 ? uploaded(context, std::vector<float>{plan.extrapolation}) : nullptr;
  return by_tables("resize, nearest", view, tables, std::move(fill), -1, context);
}

// Resizes one axis after the other, with two alternating intermediate buffers.
struct Passes {
  std::vector<ResizeAxis> calls{};
  std::vector<ConstMemory> held{};
  std::size_t half = 0;  // bytes of one buffer

  void run(const KernelArgs& args) const {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ResizeAxis now = calls[i];
      auto* const scratch = static_cast<unsigned char*>(args.scratch);
      now.from = i == 0 ? args.inputs[0] : scratch + (i - 1) % 2 * half;
      now.to = i + 1 == calls.size() ? args.outputs[0] : scratch + i % 2 * half;
      run_resize_axis(now, args);
    }
  }
};

std::unique_ptr<Kernel> weighed(const NodeView& view, const ResizePlan& plan, Context& context) {
  const TensorType in = view.in(0);
  if (!is_computed_real(in.dtype) || plan.axes.empty()) return nullptr;
  Passes passes;
  Shape shape = in.shape;
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    const ResizedAxis& axis = plan.axes[i];
    ResizeAxis call{};
    call.from_type = i == 0 ? real_type(in.dtype) : RealType::f32;
    call.to_type = i + 1 == plan.axes.size() ? real_type(in.dtype) : RealType::f32;
    call.outer = shape.size(0, axis.axis);
    call.size = axis.from;
    call.out_size = static_cast<std::int64_t>(axis.first.size());
    call.inner = shape.size(axis.axis + 1, shape.rank());
    call.taps = axis.taps;
    call.extrapolation_value = plan.extrapolation;
    shape[axis.axis] = call.out_size;
    std::vector<std::int32_t> first;
    for (std::size_t k = 0; k < axis.first.size(); ++k)
      first.push_back(axis.outside_roi[k] ? INT_MIN : static_cast<std::int32_t>(axis.first[k]));
    passes.held.push_back(uploaded(context, first));
    call.first = static_cast<const std::int32_t*>(passes.held.back().get());
    passes.held.push_back(uploaded(context, axis.weights));
    call.weights = static_cast<const float*>(passes.held.back().get());
    passes.calls.push_back(call);
    if (i + 1 < plan.axes.size())
      passes.half = std::max(passes.half, memory::round_up(byte_size(shape, DType::f32), 256));
  }
  const std::size_t scratch = 2 * passes.half;
  return launched(
      "resize", [passes](const KernelArgs& args) { passes.run(args); }, 1u, scratch);
}

std::unique_ptr<Kernel> resize(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  if (!is_copyable(view.in(0)) || !is_copyable(view.out(0)) || view.in(0).shape.size() == 0)
    return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  const std::optional<ResizePlan> plan = plan_of(view);
  if (!plan) return nullptr;
  return plan->nearest || plan->axes.empty() ? nearest(view, *plan, context)
                                             : weighed(view, *plan, context);
}

constexpr Maker kPadResizeMakers[] = {
    {"Pad", "", pad},
    {"Resize", "", resize},
    {"Upsample", "", resize},
};

}  // namespace

std::span<const Maker> pad_resize_makers() { return kPadResizeMakers; }

}  // namespace sluice::engine::cuda
