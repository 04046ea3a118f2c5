// Trilu, EyeLike, OneHot, ConstantOfShape, Range, ReverseSequence, CumSum and CumProd.
#include <algorithm>
#include <cstring>

#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/ops/convert.h"

namespace sluice::engine::cuda {
namespace {

std::unique_ptr<Kernel> pattern_fill(std::string name, const PatternFillCall& fill,
                                     std::uint32_t reads) {
  return launched(
      std::move(name),
      [fill](const KernelArgs& args) {
        PatternFillCall now = fill;
        now.from = args.inputs.empty() ? nullptr : args.inputs[0];
        now.values = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
        now.to = args.outputs[0];
        run_pattern_fill(now, args);
      },
      reads);
}

PatternFillCall fill_for(const NodeView& view, PatternFillCall::Pattern which) {
  PatternFillCall fill{};
  fill.pattern = which;
  fill.width = width_of(view.out(0));
  fill.total = view.out(0).shape.size();
  fill.rows = fill.columns = 1;
  return fill;
}

std::unique_ptr<Kernel> trilu(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const Shape shape = view.in(0).shape;
  const auto shift = view.has(1) ? view.integers(1) : std::vector<std::int64_t>{0};
  if (!is_copyable(view.in(0)) || shape.rank() < 2 || !shift || shift->size() != 1) return nullptr;
  if (shape.size() == 0) return nothing_to_do();
  PatternFillCall fill =
      fill_for(view, view.attributes().flag("upper", true) ? PatternFillCall::Pattern::triu
                                                           : PatternFillCall::Pattern::tril);
  fill.rows = shape[shape.rank() - 2];
  fill.columns = shape[shape.rank() - 1];
  fill.shift = std::clamp((*shift)[0], -fill.rows - 1, fill.columns + 1);
  return pattern_fill("trilu", fill, 1u);
}

// The bits of one element.
void set_value(PatternFillCall& fill, const Tensor& value) {
  std::memcpy(fill.value, value.data(), value.bytes());
}

std::unique_ptr<Kernel> eye_like(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType out = view.out(0);
  if (!is_copyable(out) || out.shape.rank() != 2) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  PatternFillCall fill = fill_for(view, PatternFillCall::Pattern::eye);
  fill.rows = out.shape[0];
  fill.columns = out.shape[1];
  fill.shift = view.attributes().integer("k", 0);
  set_value(fill, converted(Tensor::of(1.0f), out.dtype));
  return pattern_fill("eye like", fill, 0);
}

std::unique_ptr<Kernel> constant_of_shape(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  if (!is_copyable(view.out(0))) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  PatternFillCall fill = fill_for(view, PatternFillCall::Pattern::fill);
  if (const Tensor value = view.attributes().tensor("value"); value) set_value(fill, value);
  return pattern_fill("fill", fill, 0);
}

std::unique_ptr<Kernel> one_hot(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType indices = view.in(0), out = view.out(0);
  const bool has_integer_indices = indices.dtype == DType::i64 || indices.dtype == DType::i32;
  if (!is_copyable(out) || !(has_integer_indices || indices.dtype == DType::f32)) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis(view.attributes().integer("axis", -1), out.shape.rank());
  PatternFillCall fill = fill_for(view, PatternFillCall::Pattern::one_hot);
  fill.rows = out.shape[axis];
  fill.columns = out.shape.size(axis + 1, out.shape.rank());
  fill.index_bytes = has_integer_indices ? static_cast<int>(bytes(indices.dtype)) : -4;
  return pattern_fill("one hot", fill, 1u | 4u);
}

// Range of constants. Each element is computed from its index, as on the CPU.
std::unique_ptr<Kernel> range(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const TensorType out = view.out(0);
  const auto start = view.number(0), delta = view.number(2);
  if (!start || !delta || !is_copyable(out)) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  const bool single = out.dtype != DType::f64;
  Tensor ramp(is_integer(out.dtype) ? DType::i64 : single ? DType::f32 : DType::f64, out.shape);
  for (std::int64_t i = 0; i < out.shape.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (is_integer(out.dtype))
      ramp.values<std::int64_t>()[at] =
          static_cast<std::int64_t>(*start) + i * static_cast<std::int64_t>(*delta);
    else if (single)
      ramp.values<float>()[at] =
          static_cast<float>(*start) + static_cast<float>(i) * static_cast<float>(*delta);
    else
      ramp.values<double>()[at] = *start + static_cast<double>(i) * *delta;
  }
  StridedCopyCall plan;
  if (!plan_strided_copy({{out.shape.size(), 1, 1}}, 0, 0, width_of(out), plan)) return nullptr;
  return launched(
      "range",
      [plan, held = context.constant(converted(ramp, out.dtype))](const KernelArgs& args) {
        StridedCopyCall now = plan;
        now.from = held.get();
        now.to = args.outputs[0];
        run_strided_copy(now, args);
      },
      0);
}

std::unique_ptr<Kernel> reverse_sequence(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType data = view.in(0);
  const DType lengths = view.in(1).dtype;
  if (!is_copyable(data) || (lengths != DType::i64 && lengths != DType::i32)) return nullptr;
  if (data.shape.size() == 0) return nothing_to_do();
  const int batch = resolve_axis(view.attributes().integer("batch_axis", 1), data.shape.rank());
  const int time = resolve_axis(view.attributes().integer("time_axis", 0), data.shape.rank());
  const auto strides = strides_of(data.shape);
  ReverseSequenceCall reverse{};
  reverse.width = width_of(data);
  reverse.long_lengths = lengths == DType::i64;
  reverse.total = data.shape.size();
  reverse.batch = data.shape[batch];
  reverse.batch_stride = strides[static_cast<std::size_t>(batch)];
  reverse.time = data.shape[time];
  reverse.time_stride = strides[static_cast<std::size_t>(time)];
  return launched("reverse sequences", [reverse](const KernelArgs& args) {
    ReverseSequenceCall now = reverse;
    now.error = args.error;
    now.from = args.inputs[0];
    now.lengths = args.inputs[1];
    now.to = args.outputs[0];
    run_reverse_sequence(now, args);
  });
}

std::unique_ptr<Kernel> cumsum(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const TensorType data = view.in(0);
  const auto type = number_type(data.dtype);
  const auto given = view.integers(1);
  if (!type || !given || given->size() != 1 || data.shape.rank() == 0) return nullptr;
  if (data.shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis((*given)[0], data.shape.rank());
  const CumSumCall plan{nullptr,
                        nullptr,
                        data.shape.size(0, axis),
                        data.shape[axis],
                        data.shape.size(axis + 1, data.shape.rank()),
                        node.op == "CumProd",
                        view.attributes().flag("exclusive"),
                        view.attributes().flag("reverse")};
  return launched(
      "cumulative sum",
      [plan, t = *type](const KernelArgs& args) {
        CumSumCall now = plan;
        now.from = args.inputs[0];
        now.to = args.outputs[0];
        run_cumsum(t, now, args);
      },
      1u);
}

constexpr Maker kTriluOneHotMakers[] = {
    {"ConstantOfShape", "", constant_of_shape},
    {"CumProd", "", cumsum},
    {"CumSum", "", cumsum},
    {"EyeLike", "", eye_like},
    {"OneHot", "", one_hot},
    {"Range", "", range},
    {"ReverseSequence", "", reverse_sequence},
    {"Trilu", "", trilu},
};

}  // namespace

std::span<const Maker> trilu_one_hot_makers() { return kTriluOneHotMakers; }

}  // namespace sluice::engine::cuda
