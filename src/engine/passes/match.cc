#include "engine/passes/match.h"

#include <cstdio>
#include <numeric>

#include "engine/ops/convert.h"
#include "engine/ops/moves.h"
#include "engine/ops/op.h"

namespace sluice::engine {
namespace {

bool unused(const GraphEditor& edit, NodeId id) {
  const std::vector<ValueId>& outputs = edit.node(id).outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId value) {
    return value == kNoValue || (edit.users(value).empty() && !edit.is_output(value));
  });
}

Tensor permuted_copy(const Tensor& tensor, const Order& order) {
  compute::Workers alone(1);
  return transposed(tensor, order, alone);
}

}  // namespace

bool is_onnx(const Node& node, std::string_view op) {
  return node.domain.empty() && node.op == op &&
         (node.inputs.size() != 2 || node.version >= 7 || !node.attributes.has("broadcast"));
}

std::optional<ScalarOperand> scalar_operand(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_onnx(node, node.op) || node.inputs.size() != 2 || node.outputs.size() != 1) return {};
  for (const bool first : {false, true}) {
    const ValueId value = node.inputs[first ? 1 : 0];
    const auto number = edit.scalar(node.inputs[first ? 0 : 1]);
    if (number && value != kNoValue && edit.type(value) == edit.type(node.outputs[0]))
      return ScalarOperand{value, *number, first};
  }
  return {};
}

std::optional<ScalarOperand> scaled(const GraphEditor& edit, NodeId id) {
  auto found = scalar_operand(edit, id);
  if (!found) return {};
  if (is_onnx(edit.node(id), "Mul")) return found;
  if (!is_onnx(edit.node(id), "Div") || found->scalar_first || found->scalar == 0) return {};
  found->scalar = 1 / found->scalar;
  return found;
}

ValueId other_input(const Node& node, ValueId value) {
  return node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
}

std::optional<std::vector<std::int64_t>> integers(const GraphEditor& edit, ValueId value) {
  const Tensor& tensor = edit.constant(value);
  if (!tensor || (tensor.dtype() != DType::i64 && tensor.dtype() != DType::i32)) return {};
  const Tensor list = converted(tensor, DType::i64);
  const auto values = list.values<std::int64_t>();
  return std::vector<std::int64_t>(values.begin(), values.end());
}

std::optional<std::vector<std::int64_t>> list_of(const GraphEditor& edit, NodeId id,
                                                 std::size_t input, std::string_view attribute) {
  const Node& node = edit.node(id);
  if (input < node.inputs.size() && node.inputs[input] != kNoValue)
    return integers(edit, node.inputs[input]);
  if (node.attributes.has(attribute)) return node.attributes.integers(attribute);
  return {};
}

Order order_of(const GraphEditor& edit, NodeId transpose) {
  const Node& node = edit.node(transpose);
  const int rank = edit.type(node.inputs[0]).shape.rank();
  Order order;
  for (const std::int64_t axis : node.attributes.integers("perm"))
    order.push_back(resolve_axis(axis, rank));
  if (node.attributes.has("perm")) return order;
  for (int axis = rank - 1; axis >= 0; --axis) order.push_back(axis);
  return order;
}

Order composed(const Order& first, const Order& second) {
  Order both;
  for (const int axis : second) both.push_back(first[static_cast<std::size_t>(axis)]);
  return both;
}

Shape permuted(const Shape& shape, const Order& order) {
  Shape result;
  for (const int axis : order) result.push_back(shape[axis]);
  return result;
}

std::optional<Bounds> bounds_of(const GraphEditor& edit, NodeId clip) {
  const Node& node = edit.node(clip);
  Bounds bounds;
  if (node.version < 11) {
    if (const float* low = node.attributes.find<float>("min")) bounds.low = *low;
    if (const float* high = node.attributes.find<float>("max")) bounds.high = *high;
    return bounds;
  }
  const auto read = [&](std::size_t i, std::optional<float>& to) {
    if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return true;
    if (const auto number = edit.scalar(node.inputs[i])) to = static_cast<float>(*number);
    return to.has_value();
  };
  if (!read(1, bounds.low) || !read(2, bounds.high)) return {};
  return bounds;
}

std::optional<ActivationParams> activation_params_of(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (is_onnx(node, "Relu")) return ActivationParams{Activation::relu};
  if (is_onnx(node, "Tanh")) return ActivationParams{Activation::tanh};
  if (is_onnx(node, "Sigmoid")) return ActivationParams{Activation::sigmoid};
  if (is_onnx(node, "Clip")) {
    const auto bounds = bounds_of(edit, id);
    if (!bounds || !bounds->low || !bounds->high) return {};
    return ActivationParams{Activation::clip, *bounds->low, *bounds->high};
  }
  if (node.domain != kFused || node.op != "Chain" || node.inputs.size() != 1) return {};
  const Chain chain = chain_of(node.attributes, 1);
  if (chain.instructions.size() != 1 || Chain::operands(chain.instructions[0].op) != 1) return {};
  const auto activation = activation_named(Chain::name(chain.instructions[0].op));
  if (!activation) return {};
  return ActivationParams{*activation};
}

void remove_dead_node(GraphEditor& edit, NodeId id) {
  std::vector<NodeId> useless{id};
  while (!useless.empty()) {
    const NodeId gone = useless.back();
    useless.pop_back();
    if (edit.removed(gone)) continue;
    const std::vector<ValueId> inputs = edit.node(gone).inputs;
    edit.remove(gone);
    for (const ValueId value : inputs)
      if (const NodeId maker = edit.producer(value); maker != kNoNode && unused(edit, maker))
        useless.push_back(maker);
  }
}

NodeId replace_node(GraphEditor& edit, NodeId old, Node node) {
  const NodeId added = edit.add(std::move(node));
  remove_dead_node(edit, old);
  return added;
}

void bypass(GraphEditor& edit, NodeId id, ValueId to) {
  edit.replace(edit.node(id).outputs[0], to);
  remove_dead_node(edit, id);
}

Node reshape_node(GraphEditor& edit, std::string name, ValueId from, ValueId to) {
  const Shape shape = edit.type(to).shape;
  const ValueId list =
      edit.add_constant(name + "/shape", Tensor::of(std::span<const std::int64_t>(shape.dims())));
  Node node{.name = std::move(name), .op = "Reshape", .domain = "", .version = 14};
  node.attributes.set("allowzero", std::int64_t{1});
  node.inputs = {from, list};
  node.outputs = {to};
  return node;
}

Node transpose_node(std::string name, ValueId from, ValueId to, const Order& order) {
  Node node{.name = std::move(name), .op = "Transpose", .domain = "", .version = 13};
  node.attributes.set("perm", Attributes::Integers(order.begin(), order.end()));
  node.inputs = {from};
  node.outputs = {to};
  return node;
}

ValueId reshaped(GraphEditor& edit, ValueId value, const Shape& shape) {
  const TensorType type = edit.type(value);
  if (type.shape == shape) return value;
  if (const Tensor tensor = edit.constant(value))
    return edit.derive({value}, "as " + to_string(shape), [&] { return tensor.reshaped(shape); });
  const std::string name = edit.graph()[value].name + "/reshaped";
  const ValueId to = edit.add_value(name, {type.dtype, shape});
  edit.add(reshape_node(edit, name, value, to));
  return to;
}

ValueId transposed(GraphEditor& edit, ValueId value, const Order& order) {
  const TensorType type = edit.type(value);
  Order same(order.size());
  std::iota(same.begin(), same.end(), 0);
  if (order == same) return value;
  const Shape shape = permuted(type.shape, order);
  std::string key = "transposed";
  for (const int axis : order) key += ' ' + std::to_string(axis);
  if (const Tensor tensor = edit.constant(value))
    return edit.derive({value}, key, [&] { return permuted_copy(tensor, order); });
  const std::string name = edit.graph()[value].name + "/transposed";
  const ValueId to = edit.add_value(name, {type.dtype, shape});
  edit.add(transpose_node(name, value, to, order));
  return to;
}

std::string exact(float number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(number));
  return text;
}

std::vector<float> numbers(const Tensor& tensor) {
  const Tensor wide = converted(tensor, DType::f32);
  const auto values = wide.values<float>();
  return {values.begin(), values.end()};
}

Tensor tensor_of(const std::vector<float>& numbers, DType dtype, const Shape& shape) {
  return converted(Tensor::of(std::span<const float>(numbers)).reshaped(shape), dtype);
}

}  // namespace sluice::engine
