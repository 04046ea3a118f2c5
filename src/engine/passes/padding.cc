#include "engine/passes/padding.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/passes/match.h"
#include "engine/passes/tokens.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {
namespace {

// Rewrites the token region of a graph for packed (varlen) sequences.
class Unpadder {
 public:
  Unpadder(GraphEditor& edit, const TokenRegion& region, std::int64_t tokens)
      : edit_(edit), region_(region), tokens_(tokens) {
    const auto types = varlen_types(region.batch(), region.length(), tokens);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string& mask = edit_.graph()[region.mask()].name;
      inputs_[i] = edit_.add_value(varlen_input_name(mask, i, region.looks_at_first()), types[i]);
      edit_.graph().inputs.push_back(inputs_[i]);
    }
  }

  void run() {
    for (const auto& [id, uses] : region_.nodes()) pack_inputs(id, uses);
    for (const auto& [id, uses] : region_.nodes()) pad_outputs(id);
    for (const auto& [id, uses] : region_.nodes()) change_shape(id);
  }

 private:
  enum Input { rows, positions, token_index, cu_seqlens };

  Shape packed(const Shape& shape, int lead) const {
    Shape made = lead == 2 ? Shape{1, tokens_} : Shape{tokens_};
    for (int i = lead; i < shape.rank(); ++i) made.push_back(shape[i]);
    return made;
  }
  ValueId gather_tokens(ValueId value, std::int64_t from, int lead, Input by);
  void pack_inputs(NodeId id, const TokenInputs& uses);
  void pad_outputs(NodeId id);
  void pad(ValueId value, const TensorType& type, const Shape& packed_shape);
  void change_shape(NodeId id);

  GraphEditor& edit_;
  const TokenRegion& region_;
  const std::int64_t tokens_;
  std::array<ValueId, VarlenBatch::kInputs> inputs_{};
  std::map<std::pair<ValueId, Input>, ValueId> gathered_;
};

// The rows of the tokens, [1, tokens, ...], from a value whose first `lead` axes hold `from` rows.
ValueId Unpadder::gather_tokens(ValueId value, std::int64_t from, int lead, Input by) {
  const auto [found, is_new] = gathered_.try_emplace({value, by}, kNoValue);
  if (!is_new) return found->second;
  const TensorType type = edit_.type(value);
  Shape flat{from}, small{1, tokens_};
  for (int i = lead; i < type.shape.rank(); ++i) {
    flat.push_back(type.shape[i]);
    small.push_back(type.shape[i]);
  }
  const std::string name = edit_.graph()[value].name + " of tokens";
  const ValueId made = edit_.add_value(name, {type.dtype, small});
  Node node{.name = name,
            .op = "Gather",
            .domain = "",
            .version = 13,
            .inputs = {reshaped(edit_, value, flat), inputs_[by]},
            .outputs = {made}};
  node.attributes.set("axis", std::int64_t{0});
  edit_.add(std::move(node));
  return found->second = made;
}

void Unpadder::pack_inputs(NodeId id, const TokenInputs& uses) {
  const int rank = edit_.type(edit_.node(id).outputs[0]).shape.rank();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ValueId value = edit_.node(id).inputs[i];
    if (uses[i] == TokenInput::removed) edit_.set_input(id, i, kNoValue);
    if (uses[i] == TokenInput::by_position) {
      const int lead = edit_.type(value).shape.rank() == rank ? 2 : 1;
      edit_.set_input(id, i, gather_tokens(value, region_.length(), lead, positions));
    }
    if (uses[i] != TokenInput::by_token || region_.has(edit_.producer(value))) continue;
    const Shape shape = edit_.type(value).shape;
    const int lead = region_.lead(shape);
    const ValueId small = gather_tokens(value, region_.batch() * region_.length(), lead, rows);
    edit_.set_input(id, i, reshaped(edit_, small, packed(shape, lead)));
  }
  if (!is_fused(edit_.node(id), "Attention")) return;
  edit_.node(id).attributes.set("max_seqlen", std::min(region_.length(), tokens_));
  edit_.add_input(id, inputs_[cu_seqlens]);
}

// Values used outside the region get their padded shape back, and keep their name.
void Unpadder::pad_outputs(NodeId id) {
  for (const ValueId value : std::vector<ValueId>(edit_.node(id).outputs)) {
    if (value == kNoValue) continue;
    const TensorType type = edit_.type(value);
    const Shape small = packed(type.shape, region_.lead(type.shape));
    const std::vector<NodeId> users = edit_.users(value);
    const bool leaves = edit_.is_output(value) || !std::ranges::all_of(users, [&](NodeId user) {
                          return region_.takes_tokens_only(user, value);
                        });
    std::vector<Dim>& dims = *edit_.graph()[value].dims;
    for (std::size_t i = 0; i < dims.size(); ++i) dims[i].size = small[static_cast<int>(i)];
    if (leaves) pad(value, type, small);
  }
}

// Gives all users outside the region the padded form of `value`, which is packed now.
void Unpadder::pad(ValueId value, const TensorType& type, const Shape& packed_shape) {
  const std::vector<NodeId> users = edit_.users(value);
  const std::string name = edit_.graph()[value].name;
  const ValueId output = edit_.add_value(name, type);
  edit_.graph()[value].name += " of tokens";
  edit_.replace(value, output);
  for (const NodeId user : users)
    for (std::size_t i = 0; i < edit_.node(user).inputs.size(); ++i)
      if (edit_.node(user).inputs[i] == output && region_.takes_tokens(user, i))
        edit_.set_input(user, i, value);
  if (region_.lead(type.shape) == 2) {
    edit_.add(fused("PadTokens", name + " padded", {value, inputs_[token_index]}, {output}));
    return;
  }
  Shape tokens = packed_shape, padded{region_.batch(), region_.length()};
  tokens.insert(0, 1);
  for (int i = 1; i < packed_shape.rank(); ++i) padded.push_back(packed_shape[i]);
  const ValueId made = edit_.add_value(name + " by position", {type.dtype, padded});
  edit_.add(fused("PadTokens", name + " padded",
                  {reshaped(edit_, value, tokens), inputs_[token_index]}, {made}));
  edit_.add(reshape_node(edit_, name + " as rows", made, output));
}

// Updates nodes that take the shape of their output as an input.
void Unpadder::change_shape(NodeId id) {
  const Node node = edit_.node(id);
  if (!node.domain.empty()) return;
  const ValueId made = node.outputs[0];
  if (node.op == "Expand") {
    const Shape shape = edit_.type(made).shape;
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    const Tensor list = Tensor::of(std::span<const std::int64_t>(sizes));
    edit_.set_input(id, 1, edit_.add_constant(node.name + "/shape", list));
  } else if (node.op == "Reshape" || node.op == "Squeeze" || node.op == "Unsqueeze") {
    Node view = reshape_node(edit_, node.name, node.inputs[0], made);
    edit_.remove(id);
    edit_.add(std::move(view));
  }
}

}  // namespace

int skip_padding(GraphEditor& edit, SkipPadding& how) {
  const TokenRegion region(edit, how.proved);
  const std::vector<ValueId>& inputs = edit.graph().inputs;
  how.mask = {static_cast<std::size_t>(std::ranges::find(inputs, region.mask()) - inputs.begin()),
              region.looks_at_first()};
  if (how.tokens == 0) return 0;
  Unpadder(edit, region, how.tokens).run();
  return static_cast<int>(region.nodes().size());
}

}  // namespace sluice::engine
