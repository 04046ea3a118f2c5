// Fuses the nodes after a channels-last convolution into it: factor, bias, residual, activation.
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

// A constant with one value per channel, or one for all; empty otherwise.
std::vector<float> by_channel(const GraphEditor& edit, ValueId value, const TensorType& image) {
  const Tensor& tensor = edit.constant(value);
  const std::int64_t channels = image.shape[3];
  if (!tensor || tensor.dtype() != image.dtype) return {};
  if (tensor.size() == 1)
    return std::vector<float>(static_cast<std::size_t>(channels), numbers(tensor)[0]);
  if (tensor.size() != channels || tensor.shape()[tensor.rank() - 1] != channels) return {};
  return numbers(tensor);
}

void fuse_output(GraphEditor& edit, NodeId conv, NodeId next) {
  edit.set_output(conv, edit.node(next).outputs[0]);
  remove_dead_node(edit, next);
}

bool fuse_bias(GraphEditor& edit, NodeId conv, NodeId next, ValueId other) {
  const TensorType type = edit.type(edit.node(conv).outputs[0]);
  const std::vector<float> added = by_channel(edit, other, type);
  if (added.empty()) return false;
  std::vector<ValueId> from{other};
  if (has_input(edit.node(conv), 2)) from.push_back(edit.node(conv).inputs[2]);
  const Tensor own = from.size() > 1 ? edit.constant(from[1]) : Tensor();
  if (from.size() > 1 && !own) return false;
  const ValueId bias = edit.derive(from, "as bias of " + std::to_string(added.size()), [&] {
    std::vector<float> list = added;
    if (own)
      for (std::size_t i = 0; i < list.size(); ++i) list[i] += numbers(own)[i];
    return tensor_of(list, type.dtype, Shape{type.shape[3]});
  });
  put_input(edit, conv, 2, bias);
  fuse_output(edit, conv, next);
  return true;
}

bool fuse_factor(GraphEditor& edit, NodeId conv, NodeId next, ValueId other) {
  const TensorType type = edit.type(edit.node(conv).outputs[0]);
  const std::vector<float> factor = by_channel(edit, other, type);
  if (factor.empty() || has_input(edit.node(conv), 3)) return false;
  // A quantized convolution applies the factor to its scale.
  for (const std::size_t i : {is_quantized(edit.node(conv)) ? 4u : 1u, 2u}) {
    if (!has_input(edit.node(conv), i)) continue;
    const ValueId value = edit.node(conv).inputs[i];
    const Tensor tensor = edit.constant(value);
    if (!tensor) return false;
    edit.set_input(conv, i, edit.derive({value, other}, "times a factor", [&] {
      std::vector<float> list = numbers(tensor);
      const std::size_t each = list.size() / factor.size();
      for (std::size_t k = 0; k < list.size(); ++k) list[k] *= factor[k / each];
      return tensor_of(list, tensor.dtype(), tensor.shape());
    }));
  }
  fuse_output(edit, conv, next);
  return true;
}

// The convolution's output has no other use, so the other operand cannot depend on it.
bool fuse_residual(GraphEditor& edit, NodeId conv, NodeId next, ValueId other) {
  if (has_input(edit.node(conv), 3) || edit.type(other) != edit.type(edit.node(conv).outputs[0]))
    return false;
  put_input(edit, conv, 3, other);
  fuse_output(edit, conv, next);
  return true;
}

// False if there is nothing more to fuse.
bool fuse_next(GraphEditor& edit, NodeId conv) {
  const ValueId out = edit.node(conv).outputs[0];
  const NodeId next = edit.only_user(out);
  if (next == kNoNode ||
      activation_params_of(edit.node(conv).attributes).activation != Activation::none)
    return false;
  if (const auto activation = activation_params_of(edit, next)) {
    write(*activation, edit.node(conv).attributes);
    fuse_output(edit, conv, next);
    return true;
  }
  const Node& node = edit.node(next);
  const bool sum = is_onnx(node, "Add"), product = is_onnx(node, "Mul");
  if ((!sum && !product) || edit.type(node.outputs[0]) != edit.type(out)) return false;
  const ValueId other = other_input(node, out);
  if (product) return fuse_factor(edit, conv, next, other);
  return fuse_bias(edit, conv, next, other) || fuse_residual(edit, conv, next, other);
}

}  // namespace

int fuse_convolutions(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || !is_fused_or_quantized(edit.node(id), "Conv")) continue;
    while (fuse_next(edit, id)) ++changes;
  }
  return changes;
}

}  // namespace sluice::engine
