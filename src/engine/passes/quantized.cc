#include "engine/passes/quantized.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

// The zero point of QuantizeLinear or DequantizeLinear; none if it is not a single constant.
std::optional<int> zero_of(const GraphEditor& edit, const Node& node) {
  if (!has_input(node, 2)) return 0;
  const Tensor& zero = edit.constant(node.inputs[2]);
  if (!zero || zero.size() == 0) return {};
  const std::vector<float> all = numbers(zero);
  const bool same = std::all_of(all.begin(), all.end(), [&](float x) { return x == all[0]; });
  return same ? std::optional(static_cast<int>(all[0])) : std::nullopt;
}

std::optional<float> one_scale(const GraphEditor& edit, const Node& node) {
  const Tensor& scale = edit.constant(node.inputs[1]);
  if (!scale || scale.dtype() != DType::f32 || scale.size() != 1 ||
      node.attributes.integer("block_size", 0) != 0)
    return {};
  return scale.values<float>()[0];
}

// Constant weights with zero point 0, and one scale or one per index of `axis`.
struct Weights {
  ValueId values, scale;
};
std::optional<Weights> quantized_weights(const GraphEditor& edit, ValueId wide, int axis) {
  const NodeId id = edit.producer(wide, "DequantizeLinear");
  if (id == kNoNode || edit.type(wide).dtype != DType::f32) return {};
  const Node& node = edit.node(id);
  const Tensor &values = edit.constant(node.inputs[0]), &scale = edit.constant(node.inputs[1]);
  if (!values || !scale || scale.dtype() != DType::f32 || zero_of(edit, node) != 0 ||
      node.attributes.integer("block_size", 0) != 0)
    return {};
  const bool one = scale.size() == 1;
  if (!one && (scale.rank() != 1 || values.rank() < 2 ||
               resolve_axis(node.attributes.integer("axis", 1), values.rank()) != axis))
    return {};
  return Weights{node.inputs[0], node.inputs[1]};
}

bool match(const GraphEditor& edit, const DequantizedValue& x, const Weights& w) {
  const DType of_x = edit.type(x.value).dtype, of_w = edit.type(w.values).dtype;
  return (is_byte(of_x) && of_w == DType::i8) || (of_x == DType::f8e4m3fn && of_w == of_x);
}

// The scale of x times the scale of each output channel.
ValueId joint_scale(GraphEditor& edit, const DequantizedValue& x, const Weights& w, std::int64_t n,
                    float by) {
  const Tensor scale = edit.constant(w.scale);
  const float all = x.scale * by;
  const std::string key = "times " + exact(all) + " for " + std::to_string(n);
  return edit.derive({w.scale}, key, [&] {
    std::vector<float> list = numbers(scale);
    list.resize(static_cast<std::size_t>(n), list[0]);
    for (float& number : list) number *= all;
    return tensor_of(list, DType::f32, Shape{n});
  });
}

// The bias per column times beta; kNoValue if there is none, nullopt if it has another form.
std::optional<ValueId> gemm_bias(GraphEditor& edit, const Node& node, std::int64_t n) {
  if (!has_input(node, 2)) return kNoValue;
  const Tensor bias = edit.constant(node.inputs[2]);
  const float beta = node.attributes.real("beta", 1);
  if (bias.dtype() != DType::f32 || (bias.size() != n && bias.size() != 1)) return {};
  if (bias.size() == n && bias.rank() > 0 && bias.shape()[bias.rank() - 1] != n) return {};
  return edit.derive({node.inputs[2]}, "times " + exact(beta) + " for " + std::to_string(n), [&] {
    std::vector<float> list = numbers(bias);
    list.resize(static_cast<std::size_t>(n), list[0]);
    for (float& number : list) number *= beta;
    return tensor_of(list, DType::f32, Shape{n});
  });
}

struct Operands {
  DequantizedValue x;
  Weights w;
};
std::optional<Operands> operands_of(const GraphEditor& edit, const Node& node) {
  const bool gemm = is_onnx(node, "Gemm"), flipped = gemm && node.attributes.flag("transB");
  if ((!gemm && !is_onnx(node, "MatMul")) || (gemm && node.attributes.flag("transA"))) return {};
  const auto x = dequantized_value(edit, node.inputs[0]);
  const auto w = quantized_weights(edit, node.inputs[1], flipped ? 0 : 1);
  if (!x || !w || !match(edit, *x, *w)) return {};
  const Shape shape = edit.type(x->value).shape;
  const bool fits = shape.rank() >= 2 && shape.size() > 0 && edit.constant(w->values).rank() == 2 &&
                    edit.constant(w->values).size() > 0;
  return fits ? std::optional(Operands{*x, *w}) : std::nullopt;
}

std::optional<Operands> conv_operands(const GraphEditor& edit, const Node& node) {
  if (!is_onnx(node, "Conv") || node.attributes.integer("group", 1) != 1) return {};
  const auto x = dequantized_value(edit, node.inputs[0]);
  const auto w = quantized_weights(edit, node.inputs[1], 0);
  if (!x || !w || !match(edit, *x, *w) || !is_byte(edit.type(x->value).dtype)) return {};
  const Shape shape = edit.type(x->value).shape;
  const bool fits = shape.rank() == 4 && shape.size() > 0 &&
                    edit.type(node.outputs[0]).shape.size() > 0 &&
                    (!has_input(node, 2) || edit.constant(node.inputs[2]).dtype() == DType::f32);
  return fits ? std::optional(Operands{*x, *w}) : std::nullopt;
}

Tensor expanded(const Node& node, const std::vector<Datum>& inputs) {
  class NoSubgraphs final : public SubgraphRunner {
    std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
  } none;
  compute::Workers alone(1);
  std::vector<Datum> outputs(1);
  OpCall call(node, inputs, outputs, alone, none);
  op_of(node).run(call);
  return outputs[0].tensor;
}

// Dequantizes a constant for all users that are not quantized GEMMs or convolutions.
bool expand(GraphEditor& edit, NodeId id) {
  const Node node = edit.node(id);
  std::vector<Datum> inputs;
  std::string key = "expanded";
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !edit.constant(value)) return false;
    inputs.push_back(value == kNoValue ? Datum() : Datum(edit.constant(value)));
  }
  for (const char* name : {"axis", "block_size", "output_dtype"})
    key += ' ' + std::to_string(node.attributes.integer(name, name[0] == 'a' ? 1 : 0));
  std::vector<ValueId> from = node.inputs;
  std::erase(from, kNoValue);
  const ValueId out = node.outputs[0];
  ValueId wide = kNoValue;
  for (const NodeId user : std::vector<NodeId>(edit.users(out))) {
    if (operands_of(edit, edit.node(user)) || is_quantized_conv(edit, edit.node(user))) continue;
    if (wide == kNoValue) wide = edit.derive(from, key, [&] { return expanded(node, inputs); });
    for (std::size_t i = 0; i < edit.node(user).inputs.size(); ++i)
      if (edit.node(user).inputs[i] == out) edit.set_input(user, i, wide);
  }
  return wide != kNoValue;
}

void set_quant_params(Attributes& attributes, float scale, int zero, DType to) {
  attributes.set("to_scale", scale);
  attributes.set("to_zero", std::int64_t{zero});
  attributes.set("to_type", static_cast<std::int64_t>(to));
}

// Fuses a following QuantizeLinear into the epilogue.
bool fuse_quantize(GraphEditor& edit, NodeId id) {
  const ValueId out = edit.node(id).outputs[0];
  const NodeId next = edit.only_user(out);
  if (next == kNoNode || !is_onnx(edit.node(next), "QuantizeLinear") ||
      edit.node(id).attributes.has("to_scale"))
    return false;
  const Node& node = edit.node(next);
  const auto scale = one_scale(edit, node);
  const auto zero = zero_of(edit, node);
  const DType to = edit.type(node.outputs[0]).dtype;
  const bool fits = is_byte(to) || (to == DType::f8e4m3fn && edit.node(id).op == "QuantizedLinear");
  if (!scale || !std::isnormal(*scale) || *scale < 0 || !zero || !fits ||
      is_byte(to) != is_byte(edit.type(edit.node(id).inputs[0]).dtype))
    return false;
  set_quant_params(edit.node(id).attributes, *scale, *zero, to);
  edit.set_output(id, node.outputs[0]);
  remove_dead_node(edit, next);
  return true;
}

// Whether `value` comes from a quantized node that can quantize its result, and only `user` reads
// it.
bool can_be_quantized(const GraphEditor& edit, ValueId value, NodeId user) {
  const NodeId producer = edit.producer(value);
  return producer != kNoNode && edit.only_user(value) == user &&
         is_quantized(edit.node(producer)) &&
         is_byte(edit.type(edit.node(producer).inputs[0]).dtype) &&
         !edit.node(producer).attributes.has("to_scale");
}

// Whether `input` is quantized with the same parameters as `quantize` applies.
bool same_quantization(const GraphEditor& edit, const DequantizedValue& input, const Node& quantize,
                       int zero) {
  return input.scale == one_scale(edit, quantize) && input.zero_point == zero &&
         edit.type(input.value).dtype == edit.type(quantize.outputs[0]).dtype;
}

// MaxPool commutes with QuantizeLinear, which is monotonic; padding is below all values either way.
// The exception is NaN: the maximum with a NaN is NaN, which CUDA quantizes to the lowest level,
// while the maximum of quantized values ignores it.
bool move_quantize_before_pool(GraphEditor& edit, NodeId pool) {
  const ValueId x = edit.node(pool).inputs[0];
  const NodeId next = edit.only_user(edit.node(pool).outputs[0]);
  if (next == kNoNode || !is_onnx(edit.node(next), "QuantizeLinear")) return false;
  Node quantize = edit.node(next);
  const auto scale = one_scale(edit, quantize);
  const auto zero = zero_of(edit, quantize);
  const ValueId out = quantize.outputs[0];
  if (!scale || !(*scale > 0) || !zero || !is_byte(edit.type(out).dtype)) return false;
  const auto input = dequantized_value(edit, x);
  if (input && same_quantization(edit, *input, quantize, *zero)) {
    edit.set_input(pool, 0, input->value);
  } else if (can_be_quantized(edit, x, pool)) {
    quantize.inputs[0] = x;
    quantize.outputs[0] = edit.add_value(edit.graph()[x].name + "/quantized",
                                         {edit.type(out).dtype, edit.type(x).shape});
    edit.set_input(pool, 0, quantize.outputs[0]);
    edit.add(std::move(quantize));
  } else {
    return false;  // quantizing the larger input of the pool does not pay off
  }
  edit.set_output(pool, out);
  remove_dead_node(edit, next);
  return true;
}

bool fuse_norm_output(GraphEditor& edit, NodeId norm, NodeId next) {
  const Node& quantize = edit.node(next);
  const ValueId y = edit.node(norm).outputs[0];
  if (!is_onnx(quantize, "QuantizeLinear") || quantize.inputs[0] != y) return false;
  const auto scale = one_scale(edit, quantize);
  const auto zero = zero_of(edit, quantize);
  const ValueId quantized = quantize.outputs[0];
  const DType to = edit.type(quantized).dtype;
  if (!scale || !(*scale > 0) || !zero || !is_byte(to)) return false;
  Node both = edit.node(norm);
  set_quant_params(both.attributes, *scale, *zero, to);
  both.outputs.push_back(quantized);
  edit.add(std::move(both), norm);
  edit.remove(norm);
  edit.remove(next);
  return true;
}

// Adds a quantized residual directly, without its DequantizeLinear.
bool fuse_quantized_residual(GraphEditor& edit, NodeId id) {
  if (!has_input(edit.node(id), 3) || edit.node(id).attributes.has("residual_scale")) return false;
  const ValueId wide = edit.node(id).inputs[3];
  const auto input = dequantized_value(edit, wide);
  if (!input || !is_byte(edit.type(input->value).dtype)) return false;
  edit.node(id).attributes.set("residual_scale", input->scale);
  edit.node(id).attributes.set("residual_zero", std::int64_t{input->zero_point});
  edit.set_input(id, 3, input->value);
  return true;
}

}  // namespace

std::optional<DequantizedValue> dequantized_value(const GraphEditor& edit, ValueId wide) {
  const NodeId id = edit.producer(wide, "DequantizeLinear");
  if (id == kNoNode || edit.type(wide).dtype != DType::f32) return {};
  const Node& node = edit.node(id);
  const DType type = edit.type(node.inputs[0]).dtype;
  const auto scale = one_scale(edit, node);
  const auto zero = zero_of(edit, node);
  if (!scale || !zero || (!is_byte(type) && type != DType::f8e4m3fn)) return {};
  return DequantizedValue{node.inputs[0], *scale, *zero};
}

NodeId quantized_linear(GraphEditor& edit, NodeId id) {
  const Node node = edit.node(id);
  const auto operands = operands_of(edit, node);
  if (!operands) return kNoNode;
  const bool gemm = node.op == "Gemm";
  const Shape shape = edit.type(node.outputs[0]).shape;
  const std::int64_t n = shape[shape.rank() - 1];
  const auto bias = gemm ? gemm_bias(edit, node, n) : std::optional(kNoValue);
  if (!bias) return kNoNode;
  ValueId weights = operands->w.values;
  if (gemm && node.attributes.flag("transB")) weights = transposed(edit, weights, {1, 0});
  const ValueId scale =
      joint_scale(edit, operands->x, operands->w, n, gemm ? node.attributes.real("alpha", 1) : 1);
  Node made = fused("QuantizedLinear", node.name,
                    {operands->x.value, weights, *bias, kNoValue, scale}, node.outputs);
  made.attributes.set("zero", std::int64_t{operands->x.zero_point});
  return replace_node(edit, id, std::move(made));
}

bool is_quantized_conv(const GraphEditor& edit, const Node& node) {
  return conv_operands(edit, node).has_value();
}

Node quantized_conv(GraphEditor& edit, const Node& node) {
  const Operands operands = *conv_operands(edit, node);
  const std::int64_t n = edit.constant(operands.w.values).shape()[0];
  const ValueId scale = joint_scale(edit, operands.x, operands.w, n, 1);
  const ValueId bias = has_input(node, 2) ? node.inputs[2] : kNoValue;
  Node made = fused("QuantizedConv", node.name,
                    {operands.x.value, operands.w.values, bias, kNoValue, scale}, {});
  made.attributes.set("zero", std::int64_t{operands.x.zero_point});
  return made;
}

bool is_fused_or_quantized(const Node& node, std::string_view op) {
  return node.domain == kFused &&
         (node.op == op || (is_quantized(node) && node.op.substr(9) == op));
}

void put_input(GraphEditor& edit, NodeId id, std::size_t i, ValueId value) {
  while (edit.node(id).inputs.size() < i) edit.add_input(id, kNoValue);
  if (edit.node(id).inputs.size() == i)
    edit.add_input(id, value);
  else
    edit.set_input(id, i, value);
}

int expand_constants(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes())
    if (!edit.removed(id) && is_onnx(edit.node(id), "DequantizeLinear") && expand(edit, id))
      ++changes;
  return changes;
}

int quantize_before_pool(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || edit.node(id).domain != kFused || edit.node(id).op != "MaxPool")
      continue;
    changes += move_quantize_before_pool(edit, id) ? 1 : 0;
  }
  return changes;
}

int fuse_norm_quantize(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    const Node& node = edit.node(id);
    if (node.domain != kFused || node.op != "Norm" || node.outputs.size() != 1) continue;
    const std::vector<NodeId> users = edit.users(node.outputs[0]);
    changes += std::any_of(users.begin(), users.end(),
                           [&](NodeId user) { return fuse_norm_output(edit, id, user); })
                   ? 1
                   : 0;
  }
  return changes;
}

int fuse_quantized(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || !is_quantized(edit.node(id))) continue;
    changes += fuse_quantized_residual(edit, id) ? 1 : 0;
    changes += fuse_quantize(edit, id) ? 1 : 0;
  }
  return changes;
}

}  // namespace sluice::engine
