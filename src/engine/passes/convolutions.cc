// What follows a convolution with its channels last: factor, bias, residual and activation.
#include "engine/passes/match.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

// A constant with one number for each channel, or one for all; none where it is neither.
std::vector<float> by_channel(const Editor& edit, ValueId value, const TensorType& image) {
  const Tensor& tensor = edit.constant(value);
  const std::int64_t channels = image.shape[3];
  if (!tensor || tensor.dtype() != image.dtype) return {};
  if (tensor.size() == 1)
    return std::vector<float>(static_cast<std::size_t>(channels), numbers(tensor)[0]);
  if (tensor.size() != channels || tensor.shape()[tensor.rank() - 1] != channels) return {};
  return numbers(tensor);
}

void take_output(Editor& edit, NodeId conv, NodeId next) {
  edit.set_output(conv, edit.node(next).outputs[0]);
  drop(edit, next);
}

bool take_bias(Editor& edit, NodeId conv, NodeId next, ValueId other) {
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
  take_output(edit, conv, next);
  return true;
}

bool take_factor(Editor& edit, NodeId conv, NodeId next, ValueId other) {
  const TensorType type = edit.type(edit.node(conv).outputs[0]);
  const std::vector<float> factor = by_channel(edit, other, type);
  if (factor.empty() || has_input(edit.node(conv), 3)) return false;
  // Of small numbers, the scale carries it.
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
  take_output(edit, conv, next);
  return true;
}

// The conv's output is used nowhere else, so that nothing the other side needs comes after it.
bool take_residual(Editor& edit, NodeId conv, NodeId next, ValueId other) {
  if (has_input(edit.node(conv), 3) || edit.type(other) != edit.type(edit.node(conv).outputs[0]))
    return false;
  put_input(edit, conv, 3, other);
  take_output(edit, conv, next);
  return true;
}

// False where there is nothing more to take.
bool take_next(Editor& edit, NodeId conv) {
  const ValueId out = edit.node(conv).outputs[0];
  const NodeId next = edit.only_user(out);
  if (next == kNoNode || epilogue_of(edit.node(conv).attributes).activation != Activation::none)
    return false;
  if (const auto epilogue = epilogue_of(edit, next)) {
    write(*epilogue, edit.node(conv).attributes);
    take_output(edit, conv, next);
    return true;
  }
  const Node& node = edit.node(next);
  const bool sum = is_onnx(node, "Add"), product = is_onnx(node, "Mul");
  if ((!sum && !product) || edit.type(node.outputs[0]) != edit.type(out)) return false;
  const ValueId other = other_input(node, out);
  if (product) return take_factor(edit, conv, next, other);
  return take_bias(edit, conv, next, other) || take_residual(edit, conv, next, other);
}

}  // namespace

int fuse_convolutions(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || !is_fused_product(edit.node(id), "Conv")) continue;
    while (take_next(edit, id)) ++changes;
  }
  return changes;
}

}  // namespace sluice::engine
