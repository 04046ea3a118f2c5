#include "engine/passes/tokens.h"

#include <algorithm>

#include "engine/passes/match.h"
#include "engine/passes/padding_mask.h"

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

Tokens::Tokens(const Editor& edit) : edit_(edit) {
  find_mask();
  grow();
  find_zeros();
  check_ends();
}

int Tokens::lead(const Shape& shape) const {
  if (shape.rank() >= 2 && shape[0] == batch_ && shape[1] == length_) return 2;
  return shape.rank() >= 1 && shape[0] == batch_ * length_ ? 1 : 0;
}

// All attention is among the tokens of one mask.
void Tokens::find_mask() {
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
        !is_mask_of(edit_, mask, input))
      refuse("what shuts padding out of the attention is not one input [batch, length] of 0 and 1");
    mask_ = input;
  }
  batch_ = edit_.type(mask_).shape[0];
  length_ = edit_.type(mask_).shape[1];
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
    if (aside && steps && edit_.type(node.inputs[i]).shape.size() != 1) return std::nullopt;
    const auto take = aside || node.inputs[i] == kNoValue ? std::optional(Take::as_it_is)
                                                          : stretched(node.inputs[i], out);
    if (!take) return std::nullopt;
    takes.push_back(*take);
  }
  return takes;
}

// Tokens at these inputs; the others are the same for all.
std::optional<Takes> Tokens::rows(const Node& node,
                                  std::initializer_list<std::size_t> tokens) const {
  Takes takes(node.inputs.size(), Take::as_it_is);
  for (const std::size_t i : tokens) {
    if (!has_input(node, i)) continue;
    if (lead(edit_.type(node.inputs[i]).shape) == 0) return std::nullopt;
    takes[i] = Take::by_token;
  }
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
  if (is_one_of(node, kViewsOfTokens)) return rows(node, {0});
  if (is_fused(node, "Linear") || is_fused(node, "QuantizedLinear"))
    return in_rows ? rows(node, {0, 3}) : std::nullopt;
  if (is_fused(node, "Norm")) return in_rows ? rows(node, {0, 1}) : std::nullopt;
  if (is_onnx(node, "Gather") && node.attributes.integer("axis", 0) == 0 &&
      edit_.type(node.inputs[1]).shape.rank() == lead(out))
    return rows(node, {1});
  if (!is_fused(node, "Attention") || lead(out) != 2) return std::nullopt;
  auto takes = rows(node, {0, 1, 2});
  if (takes) (*takes)[3] = Take::not_at_all;
  return takes;
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

void Tokens::find_zeros() {
  zero_.insert(mask_);
  const auto is_zero = [&](ValueId value) { return zero_.contains(value); };
  for (const NodeId id : edit_.nodes()) {
    const Node& node = edit_.node(id);
    if (!has(id)) continue;
    const bool kept = is_one_of(node, kKeepZeros) && is_zero(node.inputs[0]);
    const bool times = is_onnx(node, "Mul") && std::ranges::any_of(node.inputs, is_zero);
    if (kept || times) zero_.insert(node.outputs[0]);
  }
}

// x[:, 0] and the like.
bool Tokens::picks_places(const Node& node) const {
  if (is_onnx(node, "Gather"))
    return node.attributes.integer("axis", 0) == 1 && bool{edit_.constant(node.inputs[1])};
  if (!is_onnx(node, "Slice") || node.inputs.size() < 4) return false;
  const auto axes = integers(edit_, node.inputs[3]);
  return axes && *axes == std::vector<std::int64_t>{1};
}

void Tokens::check_ends() const {
  for (const auto& [id, takes] : nodes_)
    for (const ValueId value : edit_.node(id).outputs) {
      if (value == kNoValue || zero_.contains(value)) continue;
      const bool whole = lead(edit_.type(value).shape) == 2;
      for (const NodeId user : edit_.users(value))
        if (!takes_tokens_only(user, value) && !(whole && picks_places(edit_.node(user))))
          refuse(describe(edit_.node(user)) + " may look at what is computed for padding");
    }
}

}  // namespace sluice::engine
