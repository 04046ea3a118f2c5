#include "engine/passes/unpadder.h"

#include <algorithm>
#include <vector>

#include "engine/passes/match.h"

namespace sluice::engine {

void Unpadder::run() {
  for (const auto& [id, uses] : region_.nodes()) pack_inputs(id, uses);
  for (const auto& [id, uses] : region_.nodes()) pack_outputs(id);
  for (const auto& [id, uses] : region_.nodes()) change_shape(id);
}

Shape Unpadder::packed(const Shape& shape, int lead) const {
  Shape made = lead == 2 ? Shape{1, tokens_} : Shape{tokens_};
  for (int i = lead; i < shape.rank(); ++i) made.push_back(shape[i]);
  return made;
}

ValueId Unpadder::new_input(const std::string& name, const TensorType& type) {
  const ValueId made = edit_.add_value(name, type);
  edit_.graph().inputs.push_back(made);
  return made;
}

ValueId Unpadder::gather_rows(ValueId value, std::int64_t from, int lead, ValueId index) {
  const auto [found, is_new] = gathered_.try_emplace({value, index}, kNoValue);
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
            .inputs = {reshaped(edit_, value, flat), index},
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
      edit_.set_input(id, i, gather_rows(value, region_.length(), lead, positions_));
    }
    if (uses[i] != TokenInput::by_token || region_.has(edit_.producer(value))) continue;
    const Shape shape = edit_.type(value).shape;
    const int lead = region_.lead(shape);
    edit_.set_input(id, i, reshaped(edit_, enter(value, lead), packed(shape, lead)));
  }
  if (!is_fused(edit_.node(id), "Attention")) return;
  edit_.node(id).attributes.set("max_seqlen", std::min(region_.length(), tokens_));
  edit_.add_input(id, cu_seqlens_);
}

void Unpadder::pack_outputs(NodeId id) {
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
    if (leaves) leave(value, type);
  }
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

}  // namespace sluice::engine
