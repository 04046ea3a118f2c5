#include "engine/passes/quantized.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/op.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

// The zero point of QuantizeLinear or DequantizeLinear; none where it is not one constant.
std::optional<int> zero_of(const Editor& edit, const Node& node) {
  if (!has_input(node, 2)) return 0;
  const Tensor& zero = edit.constant(node.inputs[2]);
  if (!zero || zero.size() == 0) return {};
  const std::vector<float> all = numbers(zero);
  const bool same = std::all_of(all.begin(), all.end(), [&](float x) { return x == all[0]; });
  return same ? std::optional(static_cast<int>(all[0])) : std::nullopt;
}

std::optional<float> one_scale(const Editor& edit, const Node& node) {
  const Tensor& scale = edit.constant(node.inputs[1]);
  if (!scale || scale.dtype() != DType::f32 || scale.size() != 1 ||
      node.attributes.integer("block_size", 0) != 0)
    return {};
  return scale.values<float>()[0];
}

// Constant, with no zero but 0, and one scale, or one for each place of `axis`.
struct Weights {
  ValueId values, scale;
};
std::optional<Weights> small_weights(const Editor& edit, ValueId wide, int axis) {
  const NodeId id = edit.maker(wide, "DequantizeLinear");
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

bool match(const Editor& edit, const SmallValue& x, const Weights& w) {
  const DType of_x = edit.type(x.value).dtype, of_w = edit.type(w.values).dtype;
  return (is_byte(of_x) && of_w == DType::i8) || (of_x == DType::f8e4m3fn && of_w == of_x);
}

// The scale of x times that of each channel.
ValueId joint_scale(Editor& edit, const SmallValue& x, const Weights& w, std::int64_t n, float by) {
  const Tensor scale = edit.constant(w.scale);
  const float all = x.scale * by;
  const std::string way = "times " + exact(all) + " for " + std::to_string(n);
  return edit.derive({w.scale}, way, [&] {
    std::vector<float> list = numbers(scale);
    list.resize(static_cast<std::size_t>(n), list[0]);
    for (float& number : list) number *= all;
    return tensor_of(list, DType::f32, Shape{n});
  });
}

// A bias for each column, times beta; kNoValue where there is none, nothing where it is no such.
std::optional<ValueId> gemm_bias(Editor& edit, const Node& node, std::int64_t n) {
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

struct Sides {
  SmallValue x;
  Weights w;
};
std::optional<Sides> sides_of(const Editor& edit, const Node& node) {
  const bool gemm = is_onnx(node, "Gemm"), flipped = gemm && node.attributes.flag("transB");
  if ((!gemm && !is_onnx(node, "MatMul")) || (gemm && node.attributes.flag("transA"))) return {};
  const auto x = small_value(edit, node.inputs[0]);
  const auto w = small_weights(edit, node.inputs[1], flipped ? 0 : 1);
  if (!x || !w || !match(edit, *x, *w)) return {};
  const Shape shape = edit.type(x->value).shape;
  const bool fits = shape.rank() >= 2 && shape.size() > 0 && edit.constant(w->values).rank() == 2 &&
                    edit.constant(w->values).size() > 0;
  return fits ? std::optional(Sides{*x, *w}) : std::nullopt;
}

std::optional<Sides> image_sides(const Editor& edit, const Node& node) {
  if (!is_onnx(node, "Conv") || node.attributes.integer("group", 1) != 1) return {};
  const auto x = small_value(edit, node.inputs[0]);
  const auto w = small_weights(edit, node.inputs[1], 0);
  if (!x || !w || !match(edit, *x, *w) || !is_byte(edit.type(x->value).dtype)) return {};
  const Shape shape = edit.type(x->value).shape;
  const bool fits = shape.rank() == 4 && shape.size() > 0 &&
                    edit.type(node.outputs[0]).shape.size() > 0 &&
                    (!has_input(node, 2) || edit.constant(node.inputs[2]).dtype() == DType::f32);
  return fits ? std::optional(Sides{*x, *w}) : std::nullopt;
}

Tensor expanded(const Node& node, const std::vector<Datum>& inputs) {
  class NoBodies final : public BodyRunner {
    std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
  } none;
  compute::Workers alone(1);
  std::vector<Datum> outputs(1);
  OpCall call(node, inputs, outputs, alone, none);
  op_of(node).run(call);
  return outputs[0].tensor;
}

// Small constants that no product takes as they are, as the numbers they stand for.
bool expand(Editor& edit, NodeId id) {
  const Node node = edit.node(id);
  std::vector<Datum> inputs;
  std::string way = "expanded";
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !edit.constant(value)) return false;
    inputs.push_back(value == kNoValue ? Datum() : Datum(edit.constant(value)));
  }
  for (const char* name : {"axis", "block_size", "output_dtype"})
    way += ' ' + std::to_string(node.attributes.integer(name, name[0] == 'a' ? 1 : 0));
  std::vector<ValueId> from = node.inputs;
  std::erase(from, kNoValue);
  const ValueId out = node.outputs[0];
  ValueId wide = kNoValue;
  for (const NodeId user : std::vector<NodeId>(edit.users(out))) {
    if (sides_of(edit, edit.node(user)) || is_quantized_conv(edit, edit.node(user))) continue;
    if (wide == kNoValue) wide = edit.derive(from, way, [&] { return expanded(node, inputs); });
    for (std::size_t i = 0; i < edit.node(user).inputs.size(); ++i)
      if (edit.node(user).inputs[i] == out) edit.set_input(user, i, wide);
  }
  return wide != kNoValue;
}

void set_steps(Attributes& attributes, float scale, int zero, DType to) {
  attributes.set("to_scale", scale);
  attributes.set("to_zero", std::int64_t{zero});
  attributes.set("to_type", static_cast<std::int64_t>(to));
}

// A result that is only used in steps is made in steps.
bool take_steps(Editor& edit, NodeId id) {
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
  set_steps(edit.node(id).attributes, *scale, *zero, to);
  edit.set_output(id, node.outputs[0]);
  drop(edit, next);
  return true;
}

// Whether a value is made by a product that can make it in steps, and only for `user`.
bool comes_in_steps(const Editor& edit, ValueId value, NodeId user) {
  const NodeId maker = edit.maker(value);
  return maker != kNoNode && edit.only_user(value) == user && is_quantized(edit.node(maker)) &&
         is_byte(edit.type(edit.node(maker).inputs[0]).dtype) &&
         !edit.node(maker).attributes.has("to_scale");
}

// Whether steps of `small` are those that QuantizeLinear makes.
bool same_steps(const Editor& edit, const SmallValue& small, const Node& quantize, int zero) {
  return small.scale == one_scale(edit, quantize) && small.zero == zero &&
         edit.type(small.value).dtype == edit.type(quantize.outputs[0]).dtype;
}

// The largest of steps is the step of the largest, since more is never a lower step. Padding is
// less than all either way. But for NaN: the largest of numbers with one is a NaN, and that the
// lowest step on CUDA; of steps, the largest is that of the other numbers.
bool pool_steps(Editor& edit, NodeId pool) {
  const ValueId x = edit.node(pool).inputs[0];
  const NodeId next = edit.only_user(edit.node(pool).outputs[0]);
  if (next == kNoNode || !is_onnx(edit.node(next), "QuantizeLinear")) return false;
  Node quantize = edit.node(next);
  const auto scale = one_scale(edit, quantize);
  const auto zero = zero_of(edit, quantize);
  const ValueId out = quantize.outputs[0];
  if (!scale || !(*scale > 0) || !zero || !is_byte(edit.type(out).dtype)) return false;
  const auto small = small_value(edit, x);
  if (small && same_steps(edit, *small, quantize, *zero)) {
    edit.set_input(pool, 0, small->value);
  } else if (comes_in_steps(edit, x, pool)) {
    quantize.inputs[0] = x;
    quantize.outputs[0] =
        edit.add_value(edit.graph()[x].name + "/steps", {edit.type(out).dtype, edit.type(x).shape});
    edit.set_input(pool, 0, quantize.outputs[0]);
    edit.add(std::move(quantize));
  } else {
    return false;  // a pass over what is larger than what the pool makes
  }
  edit.set_output(pool, out);
  drop(edit, next);
  return true;
}

bool norm_steps(Editor& edit, NodeId norm, NodeId next) {
  const Node& quantize = edit.node(next);
  const ValueId y = edit.node(norm).outputs[0];
  if (!is_onnx(quantize, "QuantizeLinear") || quantize.inputs[0] != y) return false;
  const auto scale = one_scale(edit, quantize);
  const auto zero = zero_of(edit, quantize);
  const ValueId steps = quantize.outputs[0];
  const DType to = edit.type(steps).dtype;
  if (!scale || !(*scale > 0) || !zero || !is_byte(to)) return false;
  Node both = edit.node(norm);
  set_steps(both.attributes, *scale, *zero, to);
  both.outputs.push_back(steps);
  edit.add(std::move(both), norm);
  edit.remove(norm);
  edit.remove(next);
  return true;
}

// A residual that is wide only for this sum is added as it is.
bool take_small_residual(Editor& edit, NodeId id) {
  if (!has_input(edit.node(id), 3) || edit.node(id).attributes.has("residual_scale")) return false;
  const ValueId wide = edit.node(id).inputs[3];
  const auto small = small_value(edit, wide);
  if (!small || !is_byte(edit.type(small->value).dtype)) return false;
  edit.node(id).attributes.set("residual_scale", small->scale);
  edit.node(id).attributes.set("residual_zero", std::int64_t{small->zero});
  edit.set_input(id, 3, small->value);
  return true;
}

}  // namespace

std::optional<SmallValue> small_value(const Editor& edit, ValueId wide) {
  const NodeId id = edit.maker(wide, "DequantizeLinear");
  if (id == kNoNode || edit.type(wide).dtype != DType::f32) return {};
  const Node& node = edit.node(id);
  const DType type = edit.type(node.inputs[0]).dtype;
  const auto scale = one_scale(edit, node);
  const auto zero = zero_of(edit, node);
  if (!scale || !zero || (!is_byte(type) && type != DType::f8e4m3fn)) return {};
  return SmallValue{node.inputs[0], *scale, *zero};
}

NodeId quantized_linear(Editor& edit, NodeId id) {
  const Node node = edit.node(id);
  const auto sides = sides_of(edit, node);
  if (!sides) return kNoNode;
  const bool gemm = node.op == "Gemm";
  const Shape shape = edit.type(node.outputs[0]).shape;
  const std::int64_t n = shape[shape.rank() - 1];
  const auto bias = gemm ? gemm_bias(edit, node, n) : std::optional(kNoValue);
  if (!bias) return kNoNode;
  ValueId weights = sides->w.values;
  if (gemm && node.attributes.flag("transB")) weights = transposed(edit, weights, {1, 0});
  const ValueId scale =
      joint_scale(edit, sides->x, sides->w, n, gemm ? node.attributes.real("alpha", 1) : 1);
  Node made = fused("QuantizedLinear", node.name, {sides->x.value, weights, *bias, kNoValue, scale},
                    node.outputs);
  made.attributes.set("zero", std::int64_t{sides->x.zero});
  return put(edit, id, std::move(made));
}

bool is_quantized_conv(const Editor& edit, const Node& node) {
  return image_sides(edit, node).has_value();
}

Node quantized_conv(Editor& edit, const Node& node) {
  const Sides sides = *image_sides(edit, node);
  const std::int64_t n = edit.constant(sides.w.values).shape()[0];
  const ValueId scale = joint_scale(edit, sides.x, sides.w, n, 1);
  const ValueId bias = has_input(node, 2) ? node.inputs[2] : kNoValue;
  Node made =
      fused("QuantizedConv", node.name, {sides.x.value, sides.w.values, bias, kNoValue, scale}, {});
  made.attributes.set("zero", std::int64_t{sides.x.zero});
  return made;
}

bool is_fused_product(const Node& node, std::string_view op) {
  return node.domain == kFused &&
         (node.op == op || (is_quantized(node) && node.op.substr(9) == op));
}

void put_input(Editor& edit, NodeId id, std::size_t i, ValueId value) {
  while (edit.node(id).inputs.size() < i) edit.add_input(id, kNoValue);
  if (edit.node(id).inputs.size() == i)
    edit.add_input(id, value);
  else
    edit.set_input(id, i, value);
}

int expand_constants(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes())
    if (!edit.removed(id) && is_onnx(edit.node(id), "DequantizeLinear") && expand(edit, id))
      ++changes;
  return changes;
}

int pool_in_steps(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || edit.node(id).domain != kFused || edit.node(id).op != "MaxPool")
      continue;
    changes += pool_steps(edit, id) ? 1 : 0;
  }
  return changes;
}

int steps_of_norms(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    const Node& node = edit.node(id);
    if (node.domain != kFused || node.op != "Norm" || node.outputs.size() != 1) continue;
    const std::vector<NodeId> users = edit.users(node.outputs[0]);
    changes += std::any_of(users.begin(), users.end(),
                           [&](NodeId user) { return norm_steps(edit, id, user); })
                   ? 1
                   : 0;
  }
  return changes;
}

int fuse_quantized(Editor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || !is_quantized(edit.node(id))) continue;
    changes += take_small_residual(edit, id) ? 1 : 0;
    changes += take_steps(edit, id) ? 1 : 0;
  }
  return changes;
}

}  // namespace sluice::engine
