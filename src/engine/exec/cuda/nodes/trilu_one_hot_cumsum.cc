// Tensors made by rule, sequences turned round, running sums.
#include <algorithm>
#include <cstring>

#include "engine/exec/cuda/nodes/data_movement.h"
#include "engine/exec/cuda/nodes/data_movement_nodes.h"
#include "engine/ops/convert.h"

namespace sluice::engine::cuda {
namespace {

std::unique_ptr<Kernel> by_rule(std::string what, const ByRule& rule, std::uint32_t reads) {
  return launched(
      std::move(what),
      [rule](const KernelArgs& args) {
        ByRule now = rule;
        now.from = args.inputs.empty() ? nullptr : args.inputs[0];
        now.more = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
        now.to = args.outputs[0];
        run_by_rule(now, args);
      },
      reads);
}

ByRule rule_for(const Site& site, ByRule::Rule which) {
  ByRule rule{};
  rule.rule = which;
  rule.width = width_of(site.out(0));
  rule.total = site.out(0).shape.size();
  rule.rows = rule.columns = 1;
  return rule;
}

std::unique_ptr<Kernel> trilu(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const Shape shape = site.in(0).shape;
  const auto shift = site.has(1) ? site.integers(1) : std::vector<std::int64_t>{0};
  if (!moves(site.in(0)) || shape.rank() < 2 || !shift || shift->size() != 1) return nullptr;
  if (shape.size() == 0) return nothing_to_do();
  ByRule rule = rule_for(
      site, site.attributes().flag("upper", true) ? ByRule::Rule::upper : ByRule::Rule::lower);
  rule.rows = shape[shape.rank() - 2];
  rule.columns = shape[shape.rank() - 1];
  rule.shift = std::clamp((*shift)[0], -rule.rows - 1, rule.columns + 1);
  return by_rule("triangle", rule, 1u);
}

// The bits of one element.
void set_value(ByRule& rule, const Tensor& value) {
  std::memcpy(rule.value, value.data(), value.bytes());
}

std::unique_ptr<Kernel> eye_like(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType out = site.out(0);
  if (!moves(out) || out.shape.rank() != 2) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  ByRule rule = rule_for(site, ByRule::Rule::diagonal);
  rule.rows = out.shape[0];
  rule.columns = out.shape[1];
  rule.shift = site.attributes().integer("k", 0);
  set_value(rule, converted(Tensor::of(1.0f), out.dtype));
  return by_rule("diagonal", rule, 0);
}

std::unique_ptr<Kernel> constant_of_shape(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  if (!moves(site.out(0))) return nullptr;
  if (site.out(0).shape.size() == 0) return nothing_to_do();
  ByRule rule = rule_for(site, ByRule::Rule::fill);
  if (const Tensor value = site.attributes().tensor("value"); value) set_value(rule, value);
  return by_rule("fill", rule, 0);
}

std::unique_ptr<Kernel> one_hot(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType indices = site.in(0), out = site.out(0);
  const bool whole = indices.dtype == DType::i64 || indices.dtype == DType::i32;
  if (!moves(out) || !(whole || indices.dtype == DType::f32)) return nullptr;
  if (out.shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis(site.attributes().integer("axis", -1), out.shape.rank());
  ByRule rule = rule_for(site, ByRule::Rule::one_hot);
  rule.rows = out.shape[axis];
  rule.columns = out.shape.size(axis + 1, out.shape.rank());
  rule.index_bytes = whole ? static_cast<int>(bytes(indices.dtype)) : -4;
  return by_rule("one hot", rule, 1u | 4u);
}

// Of constants: a ramp of known length. Each element is found by itself, as the CPU does.
std::unique_ptr<Kernel> range(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  const TensorType out = site.out(0);
  const auto start = site.number(0), delta = site.number(2);
  if (!start || !delta || !moves(out)) return nullptr;
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
  Move plan;
  if (!plan_move({{out.shape.size(), 1, 1}}, 0, 0, width_of(out), plan)) return nullptr;
  return launched(
      "range",
      [plan, held = context.constant(converted(ramp, out.dtype))](const KernelArgs& args) {
        Move now = plan;
        now.from = held.get();
        now.to = args.outputs[0];
        run_move(now, args);
      },
      0);
}

std::unique_ptr<Kernel> reverse_sequence(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType data = site.in(0);
  const DType lengths = site.in(1).dtype;
  if (!moves(data) || (lengths != DType::i64 && lengths != DType::i32)) return nullptr;
  if (data.shape.size() == 0) return nothing_to_do();
  const int batch = resolve_axis(site.attributes().integer("batch_axis", 1), data.shape.rank());
  const int time = resolve_axis(site.attributes().integer("time_axis", 0), data.shape.rank());
  const auto steps = steps_of(data.shape);
  Reverse reverse{};
  reverse.width = width_of(data);
  reverse.long_lengths = lengths == DType::i64;
  reverse.total = data.shape.size();
  reverse.batch = data.shape[batch];
  reverse.batch_step = steps[static_cast<std::size_t>(batch)];
  reverse.time = data.shape[time];
  reverse.time_step = steps[static_cast<std::size_t>(time)];
  return launched("reverse sequences", [reverse](const KernelArgs& args) {
    Reverse now = reverse;
    now.error = args.error;
    now.from = args.inputs[0];
    now.lengths = args.inputs[1];
    now.to = args.outputs[0];
    run_reverse(now, args);
  });
}

std::unique_ptr<Kernel> running(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const TensorType data = site.in(0);
  const auto type = number_type(data.dtype);
  const auto given = site.integers(1);
  if (!type || !given || given->size() != 1 || data.shape.rank() == 0) return nullptr;
  if (data.shape.size() == 0) return nothing_to_do();
  const int axis = resolve_axis((*given)[0], data.shape.rank());
  const Running plan{nullptr,
                     nullptr,
                     data.shape.size(0, axis),
                     data.shape[axis],
                     data.shape.size(axis + 1, data.shape.rank()),
                     node.op == "CumProd",
                     site.attributes().flag("exclusive"),
                     site.attributes().flag("reverse")};
  return launched(
      "running sum",
      [plan, t = *type](const KernelArgs& args) {
        Running now = plan;
        now.from = args.inputs[0];
        now.to = args.outputs[0];
        run_running(t, now, args);
      },
      1u);
}

constexpr Maker kRuleMakers[] = {
    {"ConstantOfShape", "", constant_of_shape},
    {"CumProd", "", running},
    {"CumSum", "", running},
    {"EyeLike", "", eye_like},
    {"OneHot", "", one_hot},
    {"Range", "", range},
    {"ReverseSequence", "", reverse_sequence},
    {"Trilu", "", trilu},
};

}  // namespace

std::span<const Maker> rule_makers() { return kRuleMakers; }

}  // namespace sluice::engine::cuda
