// Fuses GEMMs with constant weights and the following bias and activation to Linear.
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

// Whether `weights` is a constant matrix of the type of x, which has at least two axes.
bool are_weights(const GraphEditor& edit, ValueId x, ValueId weights) {
  const TensorType type = edit.type(x);
  const Tensor& tensor = edit.constant(weights);
  return is_fusable(type.dtype) && type.shape.rank() >= 2 && tensor && tensor.rank() == 2 &&
         tensor.dtype() == type.dtype && type.shape.size() > 0 && tensor.size() > 0;
}

ValueId multiplied(GraphEditor& edit, ValueId value, float by) {
  if (by == 1) return value;
  const Tensor tensor = edit.constant(value);
  return edit.derive({value}, "times " + exact(by), [&] {
    std::vector<float> list = numbers(tensor);
    for (float& number : list) number *= by;
    return tensor_of(list, tensor.dtype(), tensor.shape());
  });
}

// The bias per column, from a list of n or a scalar.
ValueId bias_list(GraphEditor& edit, ValueId value, std::int64_t n) {
  const Tensor tensor = edit.constant(value);
  if (!tensor) return kNoValue;
  const int rank = tensor.rank();
  if (tensor.size() == n && (n == 1 || tensor.shape()[rank - 1] == n))
    return reshaped(edit, value, Shape{n});
  if (tensor.size() != 1) return kNoValue;
  return edit.derive({value}, "times " + std::to_string(n) + " side by side", [&] {
    const std::vector<float> list(static_cast<std::size_t>(n), numbers(tensor)[0]);
    return tensor_of(list, tensor.dtype(), Shape{n});
  });
}

NodeId from_matmul(GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_onnx(node, "MatMul") || !are_weights(edit, node.inputs[0], node.inputs[1]))
    return kNoNode;
  return replace_node(edit, id, fused("Linear", node.name, node.inputs, node.outputs));
}

NodeId from_gemm(GraphEditor& edit, NodeId id) {
  const Node node = edit.node(id);
  const Attributes& a = node.attributes;
  if (!is_onnx(node, "Gemm") || a.flag("transA") ||
      !are_weights(edit, node.inputs[0], node.inputs[1]))
    return kNoNode;
  const Shape shape = edit.type(node.outputs[0]).shape;
  Node linear = fused("Linear", node.name, {node.inputs[0], node.inputs[1]}, node.outputs);
  if (has_input(node, 2)) {
    const ValueId bias = bias_list(edit, node.inputs[2], shape[1]);
    if (bias == kNoValue) return kNoNode;
    linear.inputs.push_back(multiplied(edit, bias, a.real("beta", 1)));
  }
  if (a.flag("transB")) linear.inputs[1] = transposed(edit, linear.inputs[1], {1, 0});
  linear.inputs[1] = multiplied(edit, linear.inputs[1], a.real("alpha", 1));
  return replace_node(edit, id, std::move(linear));
}

// Moves a Reshape of the rows of x after the GEMM.
void before_reshape(GraphEditor& edit, NodeId id) {
  const ValueId x = edit.node(id).inputs[0], out = edit.node(id).outputs[0];
  const NodeId view = edit.producer(x, "Reshape");
  if (view == kNoNode) return;
  const ValueId from = edit.node(view).inputs[0];
  TensorType type = edit.type(from);
  const Shape rows = edit.type(x).shape, columns = edit.type(out).shape;
  if (type.shape.rank() < 2 || type.shape[type.shape.rank() - 1] != rows[rows.rank() - 1]) return;
  type.shape[type.shape.rank() - 1] = columns[columns.rank() - 1];
  Node linear = edit.node(id);
  linear.inputs[0] = from;
  linear.outputs = {edit.add_value(linear.name + "/rows", type)};
  const ValueId made = linear.outputs[0];
  edit.add(std::move(linear));
  replace_node(edit, id, reshape_node(edit, edit.node(id).name + "/view", made, out));
}

bool fuse_bias(GraphEditor& edit, NodeId id) {
  const ValueId out = edit.node(id).outputs[0];
  const NodeId next = edit.only_user(out);
  if (next == kNoNode || !is_onnx(edit.node(next), "Add") || has_input(edit.node(id), 2))
    return false;
  const ValueId other = other_input(edit.node(next), out), sum = edit.node(next).outputs[0];
  const TensorType type = edit.type(out);
  if (edit.type(sum) != type || edit.type(other).dtype != type.dtype) return false;
  const ValueId bias = bias_list(edit, other, type.shape[type.shape.rank() - 1]);
  if (bias == kNoValue) return false;
  put_input(edit, id, 2, bias);
  edit.set_output(id, sum);
  remove_dead_node(edit, next);
  return true;
}

bool fuse_activation(GraphEditor& edit, NodeId id) {
  const NodeId next = edit.only_user(edit.node(id).outputs[0]);
  if (next == kNoNode) return false;
  const auto activation = activation_params_of(edit, next);
  if (!activation) return false;
  write(*activation, edit.node(id).attributes);
  edit.set_output(id, edit.node(next).outputs[0]);
  remove_dead_node(edit, next);
  return true;
}

// Whether a Linear can still take a bias or an activation.
bool is_open(const Node& node) {
  return is_fused_or_quantized(node, "Linear") && !has_input(node, 3) &&
         activation_params_of(node.attributes).activation == Activation::none;
}

}  // namespace

int fuse_linear(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id)) continue;
    NodeId linear = is_open(edit.node(id)) ? id : from_matmul(edit, id);
    if (linear == kNoNode) linear = from_gemm(edit, id);
    if (linear == kNoNode) linear = quantized_linear(edit, id);
    if (linear == kNoNode) continue;
    changes += linear == id ? 0 : 1;
    changes += fuse_bias(edit, linear) ? 1 : 0;
    changes += fuse_activation(edit, linear) ? 1 : 0;
    before_reshape(edit, linear);
  }
  return changes;
}

}  // namespace sluice::engine
