#include "engine/passes/tokens.h"

#include <algorithm>

#include "base/error.h"
#include "engine/passes/match.h"
#include "engine/passes/padding_mask.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {
namespace {

constexpr std::string_view kElementwise[] = {
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
constexpr std::string_view kTokenViews[] = {"Reshape", "Squeeze", "Unsqueeze"};
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

bool is_elementwise(const Node& node) { return is_one_of(node, kElementwise); }

TokenRegion::TokenRegion(const GraphEditor& edit, bool proved) : edit_(edit) {
  find_mask(proved);
  grow_region();
  follow_attention();
  find_zeros();
  shrink_region();
  check_boundary();
}

int TokenRegion::lead(const Shape& shape) const {
  if (shape.rank() >= 2 && shape[0] == batch_ && shape[1] == length_) return 2;
  return shape.rank() >= 1 && shape[0] == batch_ * length_ ? 1 : 0;
}

// Checks that every Attention uses the same padding mask.
void TokenRegion::find_mask(bool proved) {
  std::set<ValueId> masks;
  for (const NodeId id : edit_.nodes()) {
    const Node& node = edit_.node(id);
    if (!is_fused(node, "Attention")) continue;
    if (!has_input(node, 3)) refuse(describe(node) + " has no mask");
    masks.insert(node.inputs[3]);
  }
  if (masks.empty()) refuse("the model has no attention that was recognized");
  for (const ValueId mask : masks) {
    const ValueId input = sole_graph_input(edit_, mask);
    const bool same = mask_ == kNoValue || mask_ == input;
    if (input == kNoValue || !same || edit_.type(input).shape.rank() != 2 ||
        !is_mask_type(edit_.type(input).dtype) || (!proved && !is_padding_mask(edit_, mask, input)))
      refuse("what shuts padding out of the attention is not one input [batch, length] of 0 and 1");
    mask_ = input;
  }
  batch_ = edit_.type(mask_).shape[0];
  length_ = edit_.type(mask_).shape[1];
  if (length_ == 1) refuse("sequences of one token");
}

// ---- which nodes ----------------------------------------------------------------------------

// How a value that broadcasts to `out` is passed; none if it differs per sequence only.
std::optional<TokenInput> TokenRegion::broadcast_input(ValueId value, const Shape& out) const {
  const Shape shape = edit_.type(value).shape;
  const int less = out.rank() - shape.rank(), axes = lead(out);
  if (less < 0) return std::nullopt;
  if (less == 0 && lead(shape) == axes) return TokenInput::by_token;
  const auto size = [&](int axis) { return axis < less ? 1 : shape[axis - less]; };
  if (size(0) != 1) return std::nullopt;
  return axes == 1 || size(1) == 1 ? TokenInput::unchanged : TokenInput::by_position;
}

std::optional<TokenInputs> TokenRegion::elementwise_inputs(const Node& node) const {
  const Shape out = edit_.type(node.outputs[0]).shape;
  const bool steps = node.op == "QuantizeLinear" || node.op == "DequantizeLinear";
  TokenInputs uses;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool aside = (node.op == "Expand" || steps) && i > 0;  // not broadcast like the others
    const bool none = node.inputs[i] == kNoValue;
    if (!none && steps && i > 0 && edit_.type(node.inputs[i]).shape.size() != 1)
      return std::nullopt;
    const auto take =
        aside || none ? std::optional(TokenInput::unchanged) : broadcast_input(node.inputs[i], out);
    if (!take) return std::nullopt;
    uses.push_back(*take);
  }
  return uses;
}

// One input holds tokens, in another shape or as row indices; all tokens share the other inputs.
std::optional<TokenInputs> TokenRegion::view_inputs(const Node& node, std::size_t input) const {
  if (lead(edit_.type(node.inputs[input]).shape) == 0) return std::nullopt;
  TokenInputs uses(node.inputs.size(), TokenInput::unchanged);
  uses[input] = TokenInput::by_token;
  return uses;
}

// These inputs hold one row per token, as the output does.
std::optional<TokenInputs> TokenRegion::row_inputs(
    const Node& node, std::initializer_list<std::size_t> tokens) const {
  const Shape out = edit_.type(node.outputs[0]).shape;
  TokenInputs uses(node.inputs.size(), TokenInput::unchanged);
  for (const std::size_t i : tokens) {
    if (!has_input(node, i)) continue;
    const Shape shape = edit_.type(node.inputs[i]).shape;
    if (shape.rank() != out.rank() || lead(shape) != lead(out)) return std::nullopt;
    uses[i] = TokenInput::by_token;
  }
  return uses;
}

// Follows queries, keys or values back to the value they are computed from token by token.
ValueId TokenRegion::source_of(ValueId value) const {
  for (NodeId id = edit_.producer(value); id != kNoNode; id = edit_.producer(value)) {
    const Node& node = edit_.node(id);
    const bool is_linear = is_fused(node, "Linear") || is_fused(node, "QuantizedLinear");
    const bool other = !is_one_of(node, kTokenViews) && !is_onnx(node, "QuantizeLinear") &&
                       !is_onnx(node, "DequantizeLinear");
    if (is_linear ? has_input(node, 3) : other) break;
    if (!token_inputs(id)) break;
    value = node.inputs[0];
  }
  return value;
}

// Self-attention only: keys from another value may have other tokens, even if the count is equal.
std::optional<TokenInputs> TokenRegion::attention_inputs(const Node& node) const {
  auto uses = row_inputs(node, {0, 1, 2});
  if (!uses || lead(edit_.type(node.outputs[0]).shape) != 2) return std::nullopt;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (has_input(node, i) && source_of(node.inputs[i]) != source_of(node.inputs[0]))
      return std::nullopt;
  (*uses)[3] = TokenInput::removed;
  return uses;
}

// None if the node does not process each token independently.
std::optional<TokenInputs> TokenRegion::token_inputs(NodeId id) const {
  const Node& node = edit_.node(id);
  if (node.outputs.empty() || node.outputs[0] == kNoValue) return std::nullopt;
  const Shape out = edit_.type(node.outputs[0]).shape;
  if (lead(out) == 0) return std::nullopt;
  const bool in_rows = out.rank() == lead(out) + 1;
  if (is_one_of(node, kElementwise)) return elementwise_inputs(node);
  if (is_one_of(node, kTokenViews)) return view_inputs(node, 0);
  if (is_fused(node, "Linear") || is_fused(node, "QuantizedLinear"))
    return in_rows ? row_inputs(node, {0, 3}) : std::nullopt;
  if (is_fused(node, "Norm")) return in_rows ? row_inputs(node, {0, 1}) : std::nullopt;
  if (is_onnx(node, "Gather") && node.attributes.integer("axis", 0) == 0 &&
      edit_.type(node.inputs[1]).shape.rank() == lead(out))
    return view_inputs(node, 1);
  return is_fused(node, "Attention") ? attention_inputs(node) : std::nullopt;
}

bool TokenRegion::would_take_tokens(NodeId user, ValueId value) const {
  const auto would = token_inputs(user);
  if (!would) return false;
  const std::vector<ValueId>& inputs = edit_.node(user).inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == value && (*would)[i] != TokenInput::by_token) return false;
  return true;
}

void TokenRegion::add_neighbors(NodeId id, std::vector<NodeId>& open) const {
  const Node& node = edit_.node(id);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (takes_tokens(id, i) && edit_.producer(node.inputs[i]) != kNoNode)
      open.push_back(edit_.producer(node.inputs[i]));
  for (const ValueId value : node.outputs) {
    if (value == kNoValue) continue;
    for (const NodeId user : edit_.users(value))
      if (would_take_tokens(user, value)) open.push_back(user);
  }
}

// Grows the region from the attention nodes to everything connected by token-wise values.
void TokenRegion::grow_region() {
  std::vector<NodeId> open;
  for (const NodeId id : edit_.nodes())
    if (is_fused(edit_.node(id), "Attention")) open.push_back(id);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (has(id)) continue;
    const auto found = token_inputs(id);
    if (!found && is_fused(edit_.node(id), "Attention"))
      refuse(describe(edit_.node(id)) + " is not among tokens of the mask's shape");
    if (!found) continue;
    nodes_.emplace(id, *found);
    add_neighbors(id, open);
  }
}

bool TokenRegion::takes_tokens(NodeId user, std::size_t input) const {
  const auto found = nodes_.find(user);
  return found != nodes_.end() && input < found->second.size() &&
         found->second[input] == TokenInput::by_token;
}

bool TokenRegion::takes_tokens_only(NodeId user, ValueId value) const {
  const std::vector<ValueId>& inputs = edit_.node(user).inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] == value && !takes_tokens(user, i)) return false;
  return true;
}

// ---- which nodes may read padding -----------------------------------------------------------

// Surplus tokens are copies of one token, but attention gives zeros for them, and zero may be no
// valid row index of a table.
void TokenRegion::follow_attention() {
  for (const NodeId id : edit_.nodes()) {
    if (!has(id)) continue;
    const Node& node = edit_.node(id);
    const auto depends = [&](ValueId value) { return after_attention_.contains(value); };
    if (is_onnx(node, "Gather") && depends(node.inputs[1]))
      refuse(describe(node) + " gathers rows by a result of attention");
    if (is_fused(node, "Attention") || std::ranges::any_of(node.inputs, depends))
      for (const ValueId value : node.outputs)
        if (value != kNoValue) after_attention_.insert(value);
  }
}

void TokenRegion::find_zeros() {
  zeroed_.insert(mask_);
  for (const NodeId id : edit_.nodes()) {
    if (!has(id)) continue;
    const Node& node = edit_.node(id);
    const auto is_zero = [&](std::size_t i) {
      return i < node.inputs.size() && takes_tokens(id, i) && zeroed_.contains(node.inputs[i]);
    };
    const bool kept = is_one_of(node, kKeepZeros) && is_zero(0);
    const bool times = is_onnx(node, "Mul") && (is_zero(0) || is_zero(1));
    if (kept || times) zeroed_.insert(node.outputs[0]);
  }
}

// x[:, 0] or x[:, 0:1].
bool TokenRegion::picks_first(const Node& node) const {
  const auto is = [&](std::size_t input, std::int64_t number) {
    const auto list = has_input(node, input) ? integers(edit_, node.inputs[input]) : std::nullopt;
    return list && *list == std::vector<std::int64_t>{number};
  };
  if (is_onnx(node, "Gather")) return node.attributes.integer("axis", 0) == 1 && is(1, 0);
  return is_onnx(node, "Slice") && is(1, 0) && is(2, 1) && is(3, 1) &&
         (!has_input(node, 4) || is(4, 1));
}

// Whether a node outside the region may read what is computed for padding.
bool TokenRegion::may_read_padding(NodeId user, ValueId value) const {
  if (takes_tokens_only(user, value) || zeroed_.contains(value)) return false;
  return lead(edit_.type(value).shape) != 2 || !picks_first(edit_.node(user));
}

// Nodes before any attention leave the region if another node needs all their positions, for
// example to count tokens.
void TokenRegion::shrink_region() {
  const std::vector<NodeId> all = edit_.nodes();
  for (auto id = all.rbegin(); id != all.rend(); ++id) {  // users first
    if (!has(*id) || is_fused(edit_.node(*id), "Attention")) continue;
    for (const ValueId value : edit_.node(*id).outputs) {
      if (value == kNoValue || after_attention_.contains(value)) continue;
      const std::vector<NodeId>& users = edit_.users(value);
      if (std::ranges::any_of(users, [&](NodeId user) { return may_read_padding(user, value); })) {
        nodes_.erase(*id);
        break;
      }
    }
  }
}

void TokenRegion::check_boundary() {
  for (const auto& [id, uses] : nodes_)
    for (const ValueId value : edit_.node(id).outputs) {
      if (value == kNoValue) continue;
      for (const NodeId user : edit_.users(value)) {
        if (may_read_padding(user, value))
          refuse(describe(edit_.node(user)) + " may read what is computed for padding");
        const bool inside = takes_tokens_only(user, value) || zeroed_.contains(value);
        if (!inside) looks_at_first_ = true;
      }
    }
}

}  // namespace sluice::engine
