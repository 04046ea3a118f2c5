#include "engine/passes/tokens.h"

#include <algorithm>

#include "base/error.h"
#include "engine/passes/match.h"
#include "engine/passes/padding_mask.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {
namespace {

constexpr std::string_view kOfEachElement[] = {
    "Abs",
    "Add",
    "And",
    "Cast",
    "Clip",
    "DequantizeLinear",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Gelu",
    "Greater",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Less",
    "Log",
    "Max",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "QuantizeLinear",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Softplus",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "Where",
};
constexpr std::string_view kViewsOfTokens[] = {"Reshape", "Squeeze", "Unsqueeze"};
constexpr std::string_view kKeepZeros[] = {"Cast",    "Expand",  "Identity",
                                           "Reshape", "Squeeze", "Unsqueeze"};

template <std::size_t N>
bool is_one_of(const Node& node, const std::string_view (&ops)[N]) {
  return node.domain.empty() && std::ranges::find(ops, node.op) != std::end(ops);
}

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::unavailable, why); }

}  // namespace

bool is_fused(const Node& node, std::string_view op) {
  return node.domain == kFused && node.op == op;
}

Tokens::Tokens(const Editor& edit, bool proved) : edit_(edit) {
  find_mask(proved);
  grow();
  follow_attention();
  find_zeros();
  shrink();
  check_ends();
}

int Tokens::lead(const Shape& shape) const {
  if (shape.rank() >= 2 && shape[0] == batch_ && shape[1] == length_) return 2;
  return shape.rank() >= 1 && shape[0] == batch_ * length_ ? 1 : 0;
}

// All attention is among the tokens of one mask.
void Tokens::find_mask(bool proved) {
  std::set<ValueId> masks;
  for (const NodeId id : edit_.nodes()) {
    const Node& node = edit_.node(id);
    if (!is_fused(node, "Attention")) continue;
    if (!has_input(node, 3)) refuse(describe(node) + " has no mask");
    masks.insert(node.inputs[3]);
  }
  if (masks.empty()) refuse("the model has no attention that is known as such");
  for (const ValueId mask : masks) {
    const ValueId input = only_input_of(edit_, mask);
    const bool same = mask_ == kNoValue || mask_ == input;
    if (input == kNoValue || !same || edit_.type(input).shape.rank() != 2 ||
        !is_mask_type(edit_.type(input).dtype) || (!proved && !is_mask_of(edit_, mask, input)))
      refuse("what shuts padding out of the attention is not one input [batch, length] of 0 and 1");
    mask_ = input;
  }
  batch_ = edit_.type(mask_).shape[0];
  length_ = edit_.type(mask_).shape[1];
  if (length_ == 1) refuse("sequences of one token");
}

// ---- which nodes ----------------------------------------------------------------------------

// How a value that stretches to `out` is given; none where it differs by sequence alone.
std::optional<Take> Tokens::stretched(ValueId value, const Shape& out) const {
  const Shape shape = edit_.type(value).shape;
  const int less = out.rank() - shape.rank(), axes = lead(out);
  if (less < 0) return std::nullopt;
  if (less == 0 && lead(shape) == axes) return Take::by_token;
  const auto size = [&](int axis) { return axis < less ? 1 : shape[axis - less]; };
  if (size(0) != 1) return std::nullopt;
  return axes == 1 || size(1) == 1 ? Take::as_it_is : Take::by_position;
}

std::optional<Takes> Tokens::elements(const Node& node) const {
  const Shape out = edit_.type(node.outputs[0]).shape;
  const bool steps = node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
  Takes takes;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool aside = (node.op == "Expand" || steps) && i > 0;  // not stretched as others are
    const bool none = node.inputs[i] == kNoValue;
    if (!none && steps && i > 0 && edit_.type(node.inputs[i]).shape.size() != 1)
      return std::nullopt;
    const auto take =
        aside || none ? std::optional(Take::as_it_is) : stretched(node.inputs[i], out);
    if (!take) return std::nullopt;
    takes.push_back(*take);
  }
  return takes;
}

// Tokens at one input, in other shapes or as numbers of rows; the others are the same for all.
std::optional<Takes> Tokens::views(const Node& node, std::size_t input) const {
  if (lead(edit_.type(node.inputs[input]).shape) == 0) return std::nullopt;
  Takes takes(node.inputs.size(), Take::as_it_is);
  takes[input] = Take::by_token;
  return takes;
}

// Rows of tokens at these inputs, as those that are made.
std::optional<Takes> Tokens::rows(const Node& node,
                                  std::initializer_list<std::size_t> tokens) const {
  const Shape out = edit_.type(node.outputs[0]).shape;
  Takes takes(node.inputs.size(), Take::as_it_is);
  for (const std::size_t i : tokens) {
    if (!has_input(node, i)) continue;
    const Shape shape = edit_.type(node.inputs[i]).shape;
    if (shape.rank() != out.rank() || lead(shape) != lead(out)) return std::nullopt;
    takes[i] = Take::by_token;
  }
  return takes;
}

// What queries, keys or values are made of, token by token and of nothing else.
ValueId Tokens::source_of(ValueId value) const {
  for (NodeId id = edit_.maker(value); id != kNoNode; id = edit_.maker(value)) {
    const Node& node = edit_.node(id);
    const bool product = is_fused(node, "Linear") || is_fused(node, "QuantizedLinear");
    const bool other = !is_one_of(node, kViewsOfTokens) && !is_onnx(node, "QuantizeLinear") &&
                       !is_onnx(node, "DequantizeLinear");
    if (product ? has_input(node, 3) : other) break;
    if (!takes(id)) break;
    value = node.inputs[0];
  }
  return value;
}

// Among the tokens of one value: those of another may be others, though there are as many.
std::optional<Takes> Tokens::attention(const Node& node) const {
  auto takes = rows(node, {0, 1, 2});
  if (!takes || lead(edit_.type(node.outputs[0]).shape) != 2) return std::nullopt;
  for (const std::size_t i : {1, 2})
    if (has_input(node, i) && source_of(node.inputs[i]) != source_of(node.inputs[0]))
      return std::nullopt;
  (*takes)[3] = Take::not_at_all;
  return takes;
}

// None where a node does not work on each token by itself.
std::optional<Takes> Tokens::takes(NodeId id) const {
  const Node& node = edit_.node(id);
  if (node.outputs.empty() || node.outputs[0] == kNoValue) return std::nullopt;
  const Shape out = edit_.type(node.outputs[0]).shape;
  if (lead(out) == 0) return std::nullopt;
  const bool in_rows = out.rank() == lead(out) + 1;
  if (is_one_of(node, kOfEachElement)) return elements(node);
  if (is_one_of(node, kViewsOfTokens)) return views(node, 0);
  if (is_fused(node, "Linear") || is_fused(node, "QuantizedLinear"))
    return in_rows ? rows(node, {0, 3}) : std::nullopt;
  if (is_fused(node, "Norm")) return in_rows ? rows(node, {0, 1}) : std::nullopt;
  if (is_onnx(node, "Gather") && node.attributes.integer("axis", 0) == 0 &&
      edit_.type(node.inputs[1]).shape.rank() == lead(out))
    return views(node, 1);
  return is_fused(node, "Attention") ? attention(node) : std::nullopt;
}

bool Tokens::would_take_tokens(NodeId user, ValueId value) const {
  const auto would = takes(user);
  if (!would) return false;
  const std::vector<ValueId>& inputs = edit_.node(user).inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == value && (*would)[i] != Take::by_token) return false;
  return true;
}

void Tokens::add_neighbours(NodeId id, std::vector<NodeId>& open) const {
  const Node& node = edit_.node(id);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (takes_tokens(id, i) && edit_.maker(node.inputs[i]) != kNoNode)
      open.push_back(edit_.maker(node.inputs[i]));
  for (const ValueId value : node.outputs) {
    if (value == kNoValue) continue;
    for (const NodeId user : edit_.users(value))
      if (would_take_tokens(user, value)) open.push_back(user);
  }
}

// From the attention to all that is connected by tokens.
void Tokens::grow() {
  std::vector<NodeId> open;
  for (const NodeId id : edit_.nodes())
    if (is_fused(edit_.node(id), "Attention")) open.push_back(id);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (has(id)) continue;
    const auto found = takes(id);
    if (!found && is_fused(edit_.node(id), "Attention"))
      refuse(describe(edit_.node(id)) + " is not among tokens of the mask's shape");
    if (!found) continue;
    nodes_.emplace(id, *found);
    add_neighbours(id, open);
  }
}

bool Tokens::takes_tokens(NodeId user, std::size_t input) const {
  const auto found = nodes_.find(user);
  return found != nodes_.end() && input < found->second.size() &&
         found->second[input] == Take::by_token;
}

bool Tokens::takes_tokens_only(NodeId user, ValueId value) const {
  const std::vector<ValueId>& inputs = edit_.node(user).inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == value && !takes_tokens(user, i)) return false;
  return true;
}

// ---- who would see zeros --------------------------------------------------------------------

// Tokens too many are copies of one, but what comes of attention is zero for them, which may be no
// row of a table.
void Tokens::follow_attention() {
  for (const NodeId id : edit_.nodes()) {
    if (!has(id)) continue;
    const Node& node = edit_.node(id);
    const auto depends = [&](ValueId value) { return behind_.contains(value); };
    if (is_onnx(node, "Gather") && depends(node.inputs[1]))
      refuse(describe(node) + " takes rows by what attention makes");
    if (is_fused(node, "Attention") || std::ranges::any_of(node.inputs, depends))
      for (const ValueId value : node.outputs)
        if (value != kNoValue) behind_.insert(value);
  }
}

void Tokens::find_zeros() {
  zero_.insert(mask_);
  for (const NodeId id : edit_.nodes()) {
    if (!has(id)) continue;
    const Node& node = edit_.node(id);
    const auto is_zero = [&](std::size_t i) {
      return i < node.inputs.size() && takes_tokens(id, i) && zero_.contains(node.inputs[i]);
    };
    const bool kept = is_one_of(node, kKeepZeros) && is_zero(0);
    const bool times = is_onnx(node, "Mul") && (is_zero(0) || is_zero(1));
    if (kept || times) zero_.insert(node.outputs[0]);
  }
}

// x[:, 0] or x[:, 0:1].
bool Tokens::picks_first(const Node& node) const {
  const auto is = [&](std::size_t input, std::int64_t number) {
    const auto list = has_input(node, input) ? integers(edit_, node.inputs[input]) : std::nullopt;
    return list && *list == std::vector<std::int64_t>{number};
  };
  if (is_onnx(node, "Gather")) return node.attributes.integer("axis", 0) == 1 && is(1, 0);
  return is_onnx(node, "Slice") && is(1, 0) && is(2, 1) && is(3, 1) &&
         (!has_input(node, 4) || is(4, 1));
}

// Whether one that is not of the part may look at what is computed for padding.
bool Tokens::minds_zeros(NodeId user, ValueId value) const {
  if (takes_tokens_only(user, value) || zero_.contains(value)) return false;
  return lead(edit_.type(value).shape) != 2 || !picks_first(edit_.node(user));
}

// What is computed before any attention may as well be computed for all places, where somebody
// wants it so: where tokens are counted, say.
void Tokens::shrink() {
  const std::vector<NodeId> all = edit_.nodes();
  for (auto id = all.rbegin(); id != all.rend(); ++id) {  // whoever uses it first
    if (!has(*id) || is_fused(edit_.node(*id), "Attention")) continue;
    for (const ValueId value : edit_.node(*id).outputs) {
      if (value == kNoValue || behind_.contains(value)) continue;
      const std::vector<NodeId>& users = edit_.users(value);
      if (std::ranges::any_of(users, [&](NodeId user) { return minds_zeros(user, value); })) {
        nodes_.erase(*id);
        break;
      }
    }
  }
}

void Tokens::check_ends() {
  for (const auto& [id, takes] : nodes_)
    for (const ValueId value : edit_.node(id).outputs) {
      if (value == kNoValue) continue;
      for (const NodeId user : edit_.users(value)) {
        if (minds_zeros(user, value))
          refuse(describe(edit_.node(user)) + " may look at what is computed for padding");
        const bool inside = takes_tokens_only(user, value) || zero_.contains(value);
        if (!inside) looks_at_first_ = true;
      }
    }
}

}  // namespace sluice::engine
