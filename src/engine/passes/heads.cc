#include "engine/passes/heads.h"

#include <algorithm>

namespace sluice::engine {
namespace {

// Matches one of three outputs of a Split along the last axis.
void find_packed_qkv(const GraphEditor& edit, Heads& heads) {
  const NodeId split = edit.producer(heads.from, "Split");
  if (split == kNoNode || edit.node(split).outputs.size() != 3) return;
  const Shape shape = edit.type(edit.node(split).inputs[0]).shape;
  const int last = shape.rank() - 1;
  if (resolve_axis(edit.node(split).attributes.integer("axis", 0), shape.rank()) != last ||
      shape[last] != 3 * heads.count * heads.size)
    return;
  for (int i = 0; i < 3; ++i) {
    const ValueId third = edit.node(split).outputs[static_cast<std::size_t>(i)];
    if (third == kNoValue || edit.type(third) != edit.type(heads.from)) return;
    if (third == heads.from) heads.qkv_index = i;
  }
  heads.packed_qkv = edit.node(split).inputs[0];
}

// Matches index `part` of [3, batch, heads, length, size], from [batch, length, 3 * heads * size].
std::optional<Heads> third_of(const GraphEditor& edit, ValueId stacked, std::int64_t part,
                              Heads heads) {
  const NodeId transpose = edit.producer(stacked, "Transpose");
  if (transpose == kNoNode || order_of(edit, transpose) != Order{2, 0, 3, 1, 4}) return {};
  const ValueId split = edit.node(transpose).inputs[0];
  const NodeId view = edit.producer(split, "Reshape");
  if (view == kNoNode) return {};
  const Shape five = edit.type(split).shape;
  heads.packed_qkv = edit.node(view).inputs[0];
  heads.batch = five[0], heads.length = five[1], heads.count = five[3], heads.size = five[4];
  const Shape rows = edit.type(heads.packed_qkv).shape;
  if (five[2] != 3 || rows.rank() < 2 || rows[rows.rank() - 1] != 3 * heads.count * heads.size ||
      part < 0 || part > 2)
    return {};
  heads.qkv_index = static_cast<int>(part);
  return heads;
}

// Matches a value that Gather or Split takes from such a stack.
std::optional<Heads> unstacked(const GraphEditor& edit, ValueId value, const Heads& heads) {
  if (const NodeId gather = edit.producer(value, "Gather"); gather != kNoNode) {
    const Node& node = edit.node(gather);
    const auto index = integers(edit, node.inputs[1]);
    if (node.attributes.integer("axis", 0) != 0 || !index || index->size() != 1 ||
        edit.constant(node.inputs[1]).rank() != 0)
      return {};
    return third_of(edit, node.inputs[0], (*index)[0] < 0 ? (*index)[0] + 3 : (*index)[0], heads);
  }
  const NodeId view = edit.producer(value, "Reshape");
  const NodeId split =
      view == kNoNode ? kNoNode : edit.producer(edit.node(view).inputs[0], "Split");
  if (split == kNoNode || edit.node(split).attributes.integer("axis", 0) != 0) return {};
  const std::vector<ValueId>& parts = edit.node(split).outputs;
  const auto at = std::find(parts.begin(), parts.end(), edit.node(view).inputs[0]);
  const Shape shape = edit.type(*at).shape, own = edit.type(value).shape;
  if (parts.size() != 3 || shape.rank() != 5 || shape[0] != 1 ||
      Shape(shape.dims().subspan(1)) != own)
    return {};
  return third_of(edit, edit.node(split).inputs[0], at - parts.begin(), heads);
}

}  // namespace

ValueId unscaled(const GraphEditor& edit, ValueId value, float& scale) {
  for (NodeId id = edit.producer(value); id != kNoNode; id = edit.producer(value)) {
    const auto found = scaled(edit, id);
    if (!found) break;
    scale *= static_cast<float>(found->scalar);
    value = found->value;
  }
  return value;
}

std::optional<Heads> read_heads(const GraphEditor& edit, ValueId value, const Order& want) {
  Heads heads;
  Order order{0, 1, 2, 3};
  for (;;) {
    value = unscaled(edit, value, heads.scale);
    const NodeId transpose = edit.producer(value, "Transpose");
    if (transpose == kNoNode) break;
    order = composed(order_of(edit, transpose), order);
    value = edit.node(transpose).inputs[0];
  }
  if (auto third = unstacked(edit, value, heads))
    return composed(kHeadsFirst, order) == want ? third : std::nullopt;
  const NodeId view = edit.producer(value, "Reshape");
  if (view == kNoNode || order != want) return {};
  const Shape four = edit.type(value).shape;
  heads.batch = four[0], heads.length = four[1], heads.count = four[2], heads.size = four[3];
  heads.from = unscaled(edit, edit.node(view).inputs[0], heads.scale);
  const Shape rows = edit.type(heads.from).shape;
  if (rows.rank() < 2 || rows[rows.rank() - 1] != heads.count * heads.size) return {};
  find_packed_qkv(edit, heads);
  return heads;
}

}  // namespace sluice::engine
