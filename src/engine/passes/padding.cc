#include "engine/passes/padding.h"

#include <algorithm>
#include <array>
#include <map>

#include "engine/passes/match.h"
#include "engine/passes/tokens.h"
#include "engine/shapes/varlen.h"

namespace sluice::engine {
namespace {

// Makes the part that works on tokens smaller.
class Packer {
 public:
  Packer(Editor& edit, const Tokens& part, std::int64_t tokens)
      : edit_(edit), part_(part), tokens_(tokens) {
    const auto types = packing_types(part.batch(), part.length(), tokens);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::string& mask = edit_.graph()[part.mask()].name;
      parts_[i] = edit_.add_value(part_name(mask, i, part.looks_at_first()), types[i]);
      edit_.graph().inputs.push_back(parts_[i]);
    }
  }

  void run() {
    for (const auto& [id, takes] : part_.nodes()) give_inputs(id, takes);
    for (const auto& [id, takes] : part_.nodes()) give_outputs(id);
    for (const auto& [id, takes] : part_.nodes()) change_shape(id);
  }

 private:
  enum Part { rows, positions, places, offsets };

  Shape packed(const Shape& shape, int lead) const {
    Shape made = lead == 2 ? Shape{1, tokens_} : Shape{tokens_};
    for (int i = lead; i < shape.rank(); ++i) made.push_back(shape[i]);
    return made;
  }
  ValueId gathered(ValueId value, std::int64_t from, int lead, Part by);
  void give_inputs(NodeId id, const Takes& takes);
  void give_outputs(NodeId id);
  void place(ValueId value, const TensorType& type, const Shape& small);
  void change_shape(NodeId id);

  Editor& edit_;
  const Tokens& part_;
  const std::int64_t tokens_;
  std::array<ValueId, Packing::kParts> parts_{};
  std::map<std::pair<ValueId, Part>, ValueId> gathered_;
};

// Of a value whose first axes, `lead` of them, make `from` rows: those of the tokens, as
// [1, tokens, ...].
ValueId Packer::gathered(ValueId value, std::int64_t from, int lead, Part by) {
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
            .inputs = {reshaped(edit_, value, flat), parts_[by]},
            .outputs = {made}};
  node.attributes.set("axis", std::int64_t{0});
  edit_.add(std::move(node));
  return found->second = made;
}

void Packer::give_inputs(NodeId id, const Takes& takes) {
  const int rank = edit_.type(edit_.node(id).outputs[0]).shape.rank();
  for (std::size_t i = 0; i < takes.size(); ++i) {
    const ValueId value = edit_.node(id).inputs[i];
    if (takes[i] == Take::not_at_all) edit_.set_input(id, i, kNoValue);
    if (takes[i] == Take::by_position) {
      const int lead = edit_.type(value).shape.rank() == rank ? 2 : 1;
      edit_.set_input(id, i, gathered(value, part_.length(), lead, positions));
    }
    if (takes[i] != Take::by_token || part_.has(edit_.maker(value))) continue;
    const Shape shape = edit_.type(value).shape;
    const int lead = part_.lead(shape);
    const ValueId small = gathered(value, part_.batch() * part_.length(), lead, rows);
    edit_.set_input(id, i, reshaped(edit_, small, packed(shape, lead)));
  }
  if (!is_fused(edit_.node(id), "Attention")) return;
  edit_.node(id).attributes.set("longest", std::min(part_.length(), tokens_));
  edit_.add_input(id, parts_[offsets]);
}

// What others than the part's nodes use has its places again, and its name.
void Packer::give_outputs(NodeId id) {
  for (const ValueId value : std::vector<ValueId>(edit_.node(id).outputs)) {
    if (value == kNoValue) continue;
    const TensorType type = edit_.type(value);
    const Shape small = packed(type.shape, part_.lead(type.shape));
    const std::vector<NodeId> users = edit_.users(value);
    const bool leaves = edit_.is_output(value) || !std::ranges::all_of(users, [&](NodeId user) {
                          return part_.takes_tokens_only(user, value);
                        });
    std::vector<Dim>& dims = *edit_.graph()[value].dims;
    for (std::size_t i = 0; i < dims.size(); ++i) dims[i].size = small[static_cast<int>(i)];
    if (leaves) place(value, type, small);
  }
}

// `value`, which is `small` now, as it was for all but the part.
void Packer::place(ValueId value, const TensorType& type, const Shape& small) {
  const std::vector<NodeId> users = edit_.users(value);
  const std::string name = edit_.graph()[value].name;
  const ValueId placed = edit_.add_value(name, type);
  edit_.graph()[value].name += " of tokens";
  edit_.replace(value, placed);
  for (const NodeId user : users)
    for (std::size_t i = 0; i < edit_.node(user).inputs.size(); ++i)
      if (edit_.node(user).inputs[i] == placed && part_.takes_tokens(user, i))
        edit_.set_input(user, i, value);
  if (part_.lead(type.shape) == 2) {
    edit_.add(fused("Place", name + " placed", {value, parts_[places]}, {placed}));
    return;
  }
  Shape tokens = small, whole{part_.batch(), part_.length()};
  tokens.insert(0, 1);
  for (int i = 1; i < small.rank(); ++i) whole.push_back(small[i]);
  const ValueId made = edit_.add_value(name + " by place", {type.dtype, whole});
  edit_.add(
      fused("Place", name + " placed", {reshaped(edit_, value, tokens), parts_[places]}, {made}));
  edit_.add(reshape_node(edit_, name + " as rows", made, placed));
}

// Of nodes that are told the shape of what they make.
void Packer::change_shape(NodeId id) {
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

int skip_padding(Editor& edit, SkipPadding& how) {
  const Tokens part(edit, how.proved);
  const std::vector<ValueId>& inputs = edit.graph().inputs;
  how.mask = {static_cast<std::size_t>(std::ranges::find(inputs, part.mask()) - inputs.begin()),
              part.looks_at_first()};
  if (how.tokens == 0) return 0;
  Packer(edit, part, how.tokens).run();
  return static_cast<int>(part.nodes().size());
}

}  // namespace sluice::engine
