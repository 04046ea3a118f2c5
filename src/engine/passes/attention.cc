// Fuses attention as exporters write it: softmax(q * k' * scale + mask) * v, with q, k and v split
// into heads and transposed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/passes/heads.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"

namespace sluice::engine {
namespace {

struct Scores {
  ValueId q, k;  // operands of the matmul
  float scale = 1;
  ValueId mask = kNoValue;  // additive mask
  NodeId hidden = kNoNode;  // or a Where that replaces scores by a large negative number
};

std::optional<Scores> plain_scores(const GraphEditor& edit, ValueId value) {
  Scores scores{};
  const NodeId matmul = edit.producer(unscaled(edit, value, scores.scale), "MatMul");
  if (matmul == kNoNode) return {};
  scores.q = edit.node(matmul).inputs[0];
  scores.k = edit.node(matmul).inputs[1];
  return scores;
}

// Where(c, number, scores) equals an additive mask if the number dominates the scores: hidden keys
// have no weight, and rows without other keys give all keys the same weight. Only a row with all
// visible scores near or below the number would differ; at 1e9, f32 rounds scores to multiples
// of 64.
bool hides(const GraphEditor& edit, ValueId number) {
  const auto value = edit.scalar(number);
  return value && *value <= -1e9 && edit.type(number).dtype == DType::f32;
}

std::optional<Scores> read_scores(const GraphEditor& edit, ValueId value) {
  const NodeId id = edit.producer(value);
  if (id == kNoNode) return {};
  const Node& node = edit.node(id);
  if (is_onnx(node, "Where")) {
    const std::size_t kept = hides(edit, node.inputs[1]) ? 2 : 1;
    if (!hides(edit, node.inputs[3 - kept])) return {};
    auto scores = plain_scores(edit, node.inputs[kept]);
    if (scores && edit.type(node.inputs[kept]) == edit.type(value)) scores->hidden = id;
    return scores && scores->hidden != kNoNode ? scores : std::nullopt;
  }
  if (!is_onnx(node, "Add")) return plain_scores(edit, value);
  for (const std::size_t i : {0u, 1u}) {
    auto scores = plain_scores(edit, node.inputs[i]);
    if (!scores || edit.type(node.inputs[i]) != edit.type(value)) continue;
    scores->mask = node.inputs[1 - i];
    return scores;
  }
  return {};
}

bool is_last_softmax(const GraphEditor& edit, NodeId id) {
  if (id == kNoNode) return false;
  const Node& node = edit.node(id);
  const int rank = edit.type(node.inputs[0]).shape.rank();
  const std::int64_t axis = node.attributes.integer("axis", node.version >= 13 ? -1 : 1);
  return rank == 4 && (axis == -1 || axis == rank - 1);
}

bool fits(const GraphEditor& edit, ValueId mask, DType dtype, const Shape& scores) {
  const TensorType type = edit.type(mask);
  if (type.dtype != dtype || type.shape.rank() > 4) return false;
  for (int i = 1; i <= type.shape.rank(); ++i)
    if (type.shape[type.shape.rank() - i] != 1 &&
        type.shape[type.shape.rank() - i] != scores[4 - i])
      return false;
  return true;
}

// Skips an Expand of the mask, because Attention broadcasts it.
ValueId before_expand(const GraphEditor& edit, ValueId value) {
  const NodeId expand = edit.producer(value, "Expand");
  return expand != kNoNode ? edit.node(expand).inputs[0] : value;
}

// The additive mask of the scores; kNoValue if there is none.
ValueId mask_of(GraphEditor& edit, const Scores& scores) {
  ValueId mask = scores.mask;
  if (scores.hidden != kNoNode) {
    Node where = edit.node(scores.hidden);
    const std::size_t kept = hides(edit, where.inputs[1]) ? 2 : 1;
    where.inputs[0] = before_expand(edit, where.inputs[0]);
    where.inputs[kept] = edit.add_constant(where.name + "/zero", Tensor::of(0.0f));
    // The sum with the lowest number is that number, as if it replaced the score. The sum with a
    // number such as -1e9 still depends on the score.
    if (std::isfinite(*edit.scalar(where.inputs[3 - kept])))
      where.inputs[3 - kept] = edit.add_constant(where.name + "/lowest",
                                                 Tensor::of(std::numeric_limits<float>::lowest()));
    const Shape shape =
        broadcast(edit.type(where.inputs[0]).shape, edit.type(where.inputs[3 - kept]).shape);
    where.outputs = {edit.add_value(where.name + "/mask", {DType::f32, shape})};
    mask = where.outputs[0];
    edit.add(std::move(where));
  }
  return before_expand(edit, mask);
}

// Matches a Linear with weights and optional bias only, and with a single use.
NodeId plain_linear(const GraphEditor& edit, ValueId value) {
  const NodeId id = edit.producer(value);
  if (id == kNoNode || !is_fused_or_quantized(edit.node(id), "Linear") || !edit.used_once(value))
    return kNoNode;
  const Node& node = edit.node(id);
  const bool plain = (node.inputs.size() <= 3 || node.inputs[3] == kNoValue) &&
                     activation_params_of(node.attributes).activation == Activation::none;
  return plain ? id : kNoNode;
}

// Concatenates columns.
Tensor columns_joined(const std::vector<Tensor>& parts) {
  const std::int64_t rows = parts[0].size() / parts[0].shape()[parts[0].rank() - 1];
  const std::size_t each = parts[0].bytes() / static_cast<std::size_t>(rows);
  Shape shape = parts[0].shape();
  shape[shape.rank() - 1] *= static_cast<std::int64_t>(parts.size());
  const Tensor all(parts[0].dtype(), shape);
  std::byte* to = static_cast<std::byte*>(all.data());
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
    for (const Tensor& part : parts) {
      const std::byte* const from = static_cast<const std::byte*>(part.data()) + row * each;
      to = std::copy(from, from + each, to);
    }
  return all;
}

// Merges three Linear nodes of the same x into one; kNoValue if they do not match.
ValueId side_by_side(GraphEditor& edit, const std::vector<ValueId>& values) {
  std::vector<Node> linears;
  for (const ValueId value : values) {
    const NodeId id = plain_linear(edit, value);
    if (id == kNoNode) return kNoValue;
    linears.push_back(edit.node(id));
    if (linears.back().inputs[0] != linears[0].inputs[0] || linears.back().op != linears[0].op ||
        edit.type(linears.back().inputs[1]) != edit.type(linears[0].inputs[1]) ||
        linears.back().inputs.size() != linears[0].inputs.size())
      return kNoValue;
  }
  Node joined = linears[0];
  for (std::size_t i = 1; i < joined.inputs.size(); ++i) {
    std::vector<ValueId> from;
    std::vector<Tensor> parts;
    for (const Node& linear : linears) {
      from.push_back(linear.inputs[i]);
      parts.push_back(edit.constant(linear.inputs[i]));
      if (!parts.back() && joined.inputs[i] != kNoValue) return kNoValue;
      if (parts.back().size() != parts[0].size()) return kNoValue;
    }
    if (joined.inputs[i] == kNoValue) continue;
    joined.inputs[i] = edit.derive(from, "side by side", [&] { return columns_joined(parts); });
  }
  TensorType type = edit.type(values[0]);
  type.shape[type.shape.rank() - 1] *= static_cast<std::int64_t>(values.size());
  joined.outputs = {edit.add_value(joined.name + "/all", type)};
  const ValueId made = joined.outputs[0];
  edit.add(std::move(joined));
  return made;
}

struct Parts {
  Heads q, k, v;

  bool match() const {
    return q.batch == k.batch && k.batch == v.batch && k.length == v.length && q.count == k.count &&
           k.count == v.count && q.size == k.size && k.size == v.size && v.scale == 1 &&
           q.batch * q.length * k.length * q.count * q.size > 0;
  }
  bool is_packed() const {
    return q.packed_qkv != kNoValue && q.packed_qkv == k.packed_qkv &&
           k.packed_qkv == v.packed_qkv && q.qkv_index == 0 && k.qkv_index == 1 && v.qkv_index == 2;
  }
  bool separate() const { return q.from != kNoValue && k.from != kNoValue && v.from != kNoValue; }
};

// q, k and v, or the packed QKV in the first element.
std::vector<ValueId> inputs_of(GraphEditor& edit, const Parts& parts, bool& packed) {
  Shape all = parts.q.shape();
  all[2] *= 3;
  packed = true;
  if (parts.is_packed()) return {reshaped(edit, parts.q.packed_qkv, all), kNoValue, kNoValue};
  const bool same = parts.q.length == parts.k.length;
  const ValueId joined =
      same ? side_by_side(edit, {parts.q.from, parts.k.from, parts.v.from}) : kNoValue;
  if (joined != kNoValue) return {reshaped(edit, joined, all), kNoValue, kNoValue};
  packed = false;
  return {reshaped(edit, parts.q.from, parts.q.shape()),
          reshaped(edit, parts.k.from, parts.k.shape()),
          reshaped(edit, parts.v.from, parts.v.shape())};
}

// Matches Where(IsNaN(value), 0, value); returns the value itself otherwise.
ValueId guarded_by(const GraphEditor& edit, ValueId value) {
  const NodeId where = edit.producer(value, "Where");
  if (where == kNoNode || edit.scalar(edit.node(where).inputs[1]) != 0.0) return value;
  const ValueId inner = edit.node(where).inputs[2];
  const NodeId test = edit.producer(edit.node(where).inputs[0], "IsNaN");
  const bool guards = test != kNoNode && edit.node(test).inputs[0] == inner &&
                      edit.used_once(edit.node(test).outputs[0]) && edit.users(inner).size() == 2 &&
                      !edit.is_output(inner);
  return guards ? inner : value;
}

// The nodes and values of one attention.
struct Found {
  Parts parts;
  Scores scores;
  NodeId transpose;  // merges the heads
  Shape shape;       // of the scores
  DType dtype;
  bool guarded;  // fully masked rows are zero
};

bool takes_mask(const GraphEditor& edit, const Found& found) {
  if (found.scores.hidden != kNoNode)
    return fits(edit, edit.node(found.scores.hidden).inputs[0], DType::boolean, found.shape);
  return found.scores.mask == kNoValue || fits(edit, found.scores.mask, found.dtype, found.shape);
}

// The node that merges the heads of `value`.
NodeId merging_transpose(const GraphEditor& edit, ValueId value) {
  const NodeId transpose = edit.only_user(value);
  const bool back = transpose != kNoNode && is_onnx(edit.node(transpose), "Transpose") &&
                    order_of(edit, transpose) == kHeadsFirst;
  return back ? transpose : kNoNode;
}

std::optional<Found> find(const GraphEditor& edit, NodeId mix) {
  const Node& node = edit.node(mix);
  if (!is_onnx(node, "MatMul")) return {};
  const ValueId weights = guarded_by(edit, node.inputs[0]);
  const NodeId softmax = edit.producer(weights, "Softmax");
  if (!is_last_softmax(edit, softmax) || !edit.used_once(node.inputs[0])) return {};
  const ValueId soft = edit.node(softmax).inputs[0];
  const auto scores = read_scores(edit, soft);
  const NodeId transpose = merging_transpose(edit, node.outputs[0]);
  if (!scores || transpose == kNoNode) return {};
  const auto q = read_heads(edit, scores->q, kHeadsFirst),
             k = read_heads(edit, scores->k, kHeadsFirstTransposed),
             v = read_heads(edit, node.inputs[1], kHeadsFirst);
  if (!q || !k || !v) return {};
  const TensorType type = edit.type(soft);
  const Found found{{*q, *k, *v}, *scores,    transpose,
                    type.shape,   type.dtype, weights != node.inputs[0]};
  const bool fit = found.parts.match() && is_fusable(type.dtype) && takes_mask(edit, found);
  return fit ? std::optional(found) : std::nullopt;
}

// Replaces NaN rows, which are fully masked, by zeros.
ValueId zeros_for_nan(GraphEditor& edit, const std::string& name, ValueId value) {
  const TensorType type = edit.type(value);
  const ValueId test = edit.add_value(name + "/blind", {DType::boolean, type.shape});
  const ValueId zero = edit.add_constant(name + "/zero", tensor_of({0}, type.dtype, Shape()));
  const ValueId kept = edit.add_value(name + "/kept", type);
  edit.add({.name = name + "/blind",
            .op = "IsNaN",
            .domain = "",
            .version = 13,
            .inputs = {value},
            .outputs = {test}});
  edit.add({.name = name + "/kept",
            .op = "Where",
            .domain = "",
            .version = 16,
            .inputs = {test, zero, value},
            .outputs = {kept}});
  return kept;
}

// `name` is a copy, because adding a node may move the others.
void put_attention(GraphEditor& edit, std::string name, const Found& found) {
  bool packed = false;
  std::vector<ValueId> inputs = inputs_of(edit, found.parts, packed);
  if (const ValueId mask = mask_of(edit, found.scores); mask != kNoValue) inputs.push_back(mask);
  const Heads &q = found.parts.q, &k = found.parts.k;
  const ValueId out = edit.add_value(name + "/attention", {found.dtype, q.shape()});
  Node attention = fused("Attention", name, std::move(inputs), {out});
  attention.attributes.set("heads", q.count);
  attention.attributes.set("scale", found.scores.scale * q.scale * k.scale);
  attention.attributes.set("packed", std::int64_t{packed ? 1 : 0});
  edit.add(std::move(attention));
  const ValueId kept = found.guarded ? zeros_for_nan(edit, name, out) : out;
  const ValueId to = edit.node(found.transpose).outputs[0];
  replace_node(edit, found.transpose, reshape_node(edit, name + "/heads", kept, to));
}

// The ONNX operator gives zeros for fully masked rows, the fused one does not.
bool sees_something(const Tensor& mask) {
  const std::vector<float> list = numbers(mask);
  const auto row = static_cast<std::size_t>(mask.rank() > 0 ? mask.shape()[mask.rank() - 1] : 1);
  for (std::size_t i = 0; i < list.size(); i += row)
    if (std::all_of(list.begin() + static_cast<std::ptrdiff_t>(i),
                    list.begin() + static_cast<std::ptrdiff_t>(i + row),
                    [](float x) { return !(x > -std::numeric_limits<float>::infinity()); }))
      return false;
  return true;
}

// Whether the ONNX operator uses only features of the fused one.
bool is_plain_operator(const GraphEditor& edit, const Node& node) {
  if (!is_onnx(node, "Attention") || node.inputs.size() < 3) return false;
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue) return false;
  for (std::size_t i = 4; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue) return false;
  for (std::size_t i = 0; i < 3; ++i)
    if (edit.type(node.inputs[i]).dtype != DType::f32) return false;
  return node.attributes.integer("is_causal", 0) == 0 && node.attributes.real("softcap", 0) == 0;
}

bool fuse_attention_operator(GraphEditor& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_plain_operator(edit, node)) return false;
  const Shape q = edit.type(node.inputs[0]).shape, k = edit.type(node.inputs[1]).shape,
              v = edit.type(node.inputs[2]).shape;
  const std::int64_t heads = node.attributes.integer("q_num_heads", 0);
  if (q.rank() != 3 || k.rank() != 3 || v != k || heads <= 0 || q[2] != k[2] ||
      node.attributes.integer("kv_num_heads", 0) != heads || q.size() == 0 || k.size() == 0)
    return false;
  std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.begin() + 3);
  if (node.inputs.size() > 3 && node.inputs[3] != kNoValue) {
    const ValueId mask = node.inputs[3];
    const Tensor& tensor = edit.constant(mask);
    if (!fits(edit, mask, DType::f32, {q[0], heads, q[1], k[1]}) || !tensor || tensor.rank() == 0 ||
        tensor.shape()[tensor.rank() - 1] != k[1] || !sees_something(tensor))
      return false;
    inputs.push_back(mask);
  }
  Node attention = fused("Attention", node.name, std::move(inputs), {node.outputs[0]});
  const float* const scale = node.attributes.find<float>("scale");
  attention.attributes.set("heads", heads);
  attention.attributes.set("packed", std::int64_t{0});
  attention.attributes.set(
      "scale", scale != nullptr ? *scale : 1 / std::sqrt(static_cast<float>(q[2] / heads)));
  replace_node(edit, id, std::move(attention));
  return true;
}

bool fuse_decomposed_attention(GraphEditor& edit, NodeId mix) {
  const auto found = find(edit, mix);
  if (found) put_attention(edit, edit.node(mix).name, *found);
  return found.has_value();
}

}  // namespace

int fuse_attention(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes())
    if (!edit.removed(id) &&
        (fuse_decomposed_attention(edit, id) || fuse_attention_operator(edit, id)))
      ++changes;
  return changes;
}

}  // namespace sluice::engine
