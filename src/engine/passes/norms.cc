// Fuses layer norms as exporters write them, and folds batch norms with constant statistics.
#include <algorithm>
#include <cmath>

#include "engine/passes/match.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

// Matches the mean along the last axis with keepdims.
bool is_last_mean(const GraphEditor& edit, NodeId id) {
  if (id == kNoNode || !is_onnx(edit.node(id), "ReduceMean")) return false;
  const int rank = edit.type(edit.node(id).inputs[0]).shape.rank();
  const auto axes = list_of(edit, id, 1, "axes");
  return axes && axes->size() == 1 && ((*axes)[0] == -1 || (*axes)[0] == rank - 1) &&
         edit.node(id).attributes.flag("keepdims", true);
}

// Matches the square of a value.
ValueId root_of(const GraphEditor& edit, ValueId value) {
  if (const NodeId product = edit.producer(value, "Mul"); product != kNoNode) {
    const std::vector<ValueId>& inputs = edit.node(product).inputs;
    return inputs[0] == inputs[1] ? inputs[0] : kNoValue;
  }
  const NodeId power = edit.producer(value, "Pow");
  if (power == kNoNode || edit.scalar(edit.node(power).inputs[1]) != 2.0) return kNoValue;
  return edit.node(power).inputs[0];
}

// Matches x - mean(x).
ValueId centred(const GraphEditor& edit, ValueId value) {
  const NodeId minus = edit.producer(value, "Sub");
  if (minus == kNoNode || edit.node(minus).inputs.size() != 2) return kNoValue;
  const ValueId x = edit.node(minus).inputs[0];
  const NodeId mean = edit.producer(edit.node(minus).inputs[1], "ReduceMean");
  return is_last_mean(edit, mean) && edit.node(mean).inputs[0] == x ? x : kNoValue;
}

struct Deviation {
  ValueId of;
  float epsilon;
};

// Matches mean(square(x - mean(x))) + epsilon, the argument of the square root.
std::optional<Deviation> deviation(const GraphEditor& edit, ValueId under) {
  const NodeId plus = edit.producer(under, "Add");
  if (plus == kNoNode) return {};
  const auto sum = scalar_operand(edit, plus);
  if (!sum) return {};
  const NodeId mean = edit.producer(sum->value, "ReduceMean");
  if (!is_last_mean(edit, mean)) return {};
  const ValueId difference = root_of(edit, edit.node(mean).inputs[0]);
  const ValueId x = difference == kNoValue ? kNoValue : centred(edit, difference);
  if (x == kNoValue) return {};
  return Deviation{x, static_cast<float>(sum->scalar)};
}

// Matches the standard deviation or its reciprocal.
std::optional<Deviation> deviation_by(const GraphEditor& edit, NodeId id, bool& inverse) {
  const Node& node = edit.node(id);
  inverse = false;
  if (is_onnx(node, "Sqrt")) return deviation(edit, node.inputs[0]);
  if (is_onnx(node, "Pow")) {
    const auto exponent = edit.scalar(node.inputs[1]);
    inverse = exponent == -0.5;
    if (inverse || exponent == 0.5) return deviation(edit, node.inputs[0]);
  }
  const NodeId root = is_onnx(node, "Reciprocal") ? edit.producer(node.inputs[0], "Sqrt") : kNoNode;
  if (root == kNoNode) return {};
  inverse = true;
  return deviation(edit, edit.node(root).inputs[0]);
}

// The other input of a node, if it has one value per element of the last axis.
ValueId along_last(const GraphEditor& edit, NodeId id, std::string_view op, ValueId value) {
  if (id == kNoNode || !is_onnx(edit.node(id), op)) return kNoValue;
  const ValueId other = other_input(edit.node(id), value);
  const TensorType type = edit.type(value), one = edit.type(other);
  const int rank = type.shape.rank();
  if (!edit.constant(other) || one.shape.rank() < 1 || one.dtype != type.dtype) return kNoValue;
  const bool fits = one.shape.rank() <= rank && one.shape.size() == type.shape[rank - 1] &&
                    one.shape[one.shape.rank() - 1] == type.shape[rank - 1];
  return fits ? other : kNoValue;
}

ValueId ones(GraphEditor& edit, const std::string& name, DType dtype, std::int64_t count) {
  const std::vector<float> list(static_cast<std::size_t>(count), 1.0f);
  return edit.add_constant(name + "/ones", tensor_of(list, dtype, Shape{count}));
}

// Replaces `last` and an optional following scale and bias by a Norm.
void put_norm(GraphEditor& edit, NodeId last, const Deviation& by) {
  ValueId out = edit.node(last).outputs[0];
  const TensorType type = edit.type(out);
  const std::int64_t n = type.shape[type.shape.rank() - 1];
  const std::string name = edit.node(last).name;
  const auto follows = [&](std::string_view op) {
    const NodeId next = edit.only_user(out);
    const ValueId other = along_last(edit, next, op, out);
    if (other == kNoValue) return kNoValue;
    last = next;
    out = edit.node(next).outputs[0];
    return reshaped(edit, other, Shape{n});
  };
  ValueId scale = follows("Mul");
  const ValueId bias = follows("Add");
  if (scale == kNoValue) scale = ones(edit, name, type.dtype, n);
  Node norm = fused("Norm", name, {by.of, kNoValue, scale}, {out});
  if (bias != kNoValue) norm.inputs.push_back(bias);
  norm.attributes.set("epsilon", by.epsilon);
  replace_node(edit, last, std::move(norm));
}

bool spelled_out(GraphEditor& edit, NodeId id) {
  bool inverse = false;
  const auto by = deviation_by(edit, id, inverse);
  if (!by || !is_fusable(edit.type(by->of).dtype)) return false;
  const ValueId root = edit.node(id).outputs[0];
  for (const NodeId user : std::vector<NodeId>(edit.users(root))) {
    const Node& node = edit.node(user);
    if (!is_onnx(node, inverse ? "Mul" : "Div")) continue;
    const ValueId above = inverse ? other_input(node, root) : node.inputs[0];
    if (above == root || centred(edit, above) != by->of) continue;
    put_norm(edit, user, *by);
    return true;
  }
  return false;
}

bool layer_norm(GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_onnx(node, "LayerNormalization") || node.inputs.size() < 2) return false;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (const ValueId extra = node.outputs[i];
        extra != kNoValue && (!edit.users(extra).empty() || edit.is_output(extra)))
      return false;
  const TensorType type = edit.type(node.inputs[0]);
  const int rank = type.shape.rank();
  if (!is_fusable(type.dtype) ||
      resolve_axis(node.attributes.integer("axis", -1), rank) != rank - 1)
    return false;
  const TensorType list{type.dtype, Shape{type.shape[rank - 1]}};
  Node norm =
      fused("Norm", node.name, {node.inputs[0], kNoValue, node.inputs[1]}, {node.outputs[0]});
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) norm.inputs.push_back(node.inputs[2]);
  for (std::size_t i = 2; i < norm.inputs.size(); ++i)
    if (edit.type(norm.inputs[i]) != list) return false;
  norm.attributes.set("epsilon", node.attributes.real("epsilon", 1e-5f));
  replace_node(edit, id, std::move(norm));
  return true;
}

// Per channel: x * factor + shift.
struct Affine {
  std::vector<float> factor, shift;
};

bool is_inference(const GraphEditor& edit, const Node& node) {
  if (!is_onnx(node, "BatchNormalization") || node.inputs.size() != 5 ||
      node.attributes.flag("training_mode") ||
      (node.version < 9 && !node.attributes.flag("spatial", true)))
    return false;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) return false;
  for (std::size_t i = 1; i < 5; ++i)
    if (!edit.constant(node.inputs[i])) return false;
  const TensorType type = edit.type(node.inputs[0]);
  if (!is_fusable(type.dtype) || type.shape.rank() < 2 || type.shape.size() == 0) return false;
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId list) {
    return edit.constant(list).shape() == Shape{type.shape[1]};
  });
}

Affine affine_of(const GraphEditor& edit, const Node& node) {
  std::vector<float> part[4];
  for (std::size_t i = 0; i < 4; ++i) part[i] = numbers(edit.constant(node.inputs[i + 1]));
  const auto epsilon = static_cast<double>(node.attributes.real("epsilon", 1e-5f));
  Affine affine;
  for (std::size_t i = 0; i < part[0].size(); ++i) {
    const double factor =
        static_cast<double>(part[0][i]) / std::sqrt(static_cast<double>(part[3][i]) + epsilon);
    affine.factor.push_back(static_cast<float>(factor));
    affine.shift.push_back(static_cast<float>(static_cast<double>(part[1][i]) -
                                              static_cast<double>(part[2][i]) * factor));
  }
  return affine;
}

std::string key_of(const Node& norm) {
  return "with batch norm of epsilon " + exact(norm.attributes.real("epsilon", 1e-5f));
}

// Folds the batch norm into weights and bias of the convolution.
bool into_weights(GraphEditor& edit, NodeId id, const Affine& affine) {
  const Node& norm = edit.node(id);
  const NodeId conv = edit.producer(norm.inputs[0], "Conv");
  if (conv == kNoNode || !edit.used_once(norm.inputs[0])) return false;
  const Node& node = edit.node(conv);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  const Tensor weights = edit.constant(node.inputs[1]);
  const Tensor bias = has_bias ? edit.constant(node.inputs[2]) : Tensor();
  if (!weights || (has_bias && !bias)) return false;
  std::vector<ValueId> from{node.inputs[1]};
  from.insert(from.end(), norm.inputs.begin() + 1, norm.inputs.end());
  if (has_bias) from.push_back(node.inputs[2]);
  Node folded = node;
  folded.outputs = {norm.outputs[0]};
  folded.inputs.resize(3);
  const std::string key = key_of(norm);
  folded.inputs[1] = edit.derive(from, key, [&] {
    std::vector<float> list = numbers(weights);
    const std::size_t each = list.size() / affine.factor.size();
    for (std::size_t i = 0; i < list.size(); ++i) list[i] *= affine.factor[i / each];
    return tensor_of(list, weights.dtype(), weights.shape());
  });
  folded.inputs[2] = edit.derive(from, key + ", bias", [&] {
    std::vector<float> list = affine.shift, own = bias ? numbers(bias) : std::vector<float>();
    for (std::size_t i = 0; i < own.size(); ++i) list[i] += own[i] * affine.factor[i];
    return tensor_of(list, weights.dtype(), Shape{static_cast<std::int64_t>(list.size())});
  });
  replace_node(edit, id, std::move(folded));
  return true;
}

void as_two(GraphEditor& edit, NodeId id, const Affine& affine) {
  const Node norm = edit.node(id);
  const TensorType type = edit.type(norm.inputs[0]);
  const auto list = [&](const std::vector<float>& numbers, const char* what) {
    Shape shape{static_cast<std::int64_t>(numbers.size())};
    while (shape.rank() < type.shape.rank() - 1) shape.push_back(1);
    const std::vector<ValueId> from(norm.inputs.begin() + 1, norm.inputs.end());
    return edit.derive(from, key_of(norm) + what + to_string(shape),
                       [&] { return tensor_of(numbers, type.dtype, shape); });
  };
  const ValueId factor = list(affine.factor, ", factor "), shift = list(affine.shift, ", shift ");
  const ValueId product = edit.add_value(norm.name + "/product", type);
  edit.add({.name = norm.name + "/factor",
            .op = "Mul",
            .domain = "",
            .version = 14,
            .inputs = {norm.inputs[0], factor},
            .outputs = {product}});
  replace_node(edit, id,
               {.name = norm.name,
                .op = "Add",
                .domain = "",
                .version = 14,
                .inputs = {product, shift},
                .outputs = {norm.outputs[0]}});
}

bool batch_norm(GraphEditor& edit, NodeId id) {
  if (!is_inference(edit, edit.node(id))) return false;
  const Affine affine = affine_of(edit, edit.node(id));
  if (!into_weights(edit, id, affine)) as_two(edit, id, affine);
  return true;
}

}  // namespace

int fuse_norms(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id)) continue;
    if (spelled_out(edit, id) || layer_norm(edit, id) || batch_norm(edit, id)) ++changes;
  }
  return changes;
}

}  // namespace sluice::engine
