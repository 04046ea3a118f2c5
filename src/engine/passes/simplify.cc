// Removes no-ops, pairs that cancel out, and common subexpressions.
#include <cstring>
#include <map>
#include <numeric>

#include "engine/graph/tensor_type.h"
#include "engine/passes/match.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

bool same_type(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  return edit.type(node.inputs[0]) == edit.type(node.outputs[0]);
}

bool nobody_wants(const GraphEditor& edit, ValueId value) {
  return value == kNoValue || (edit.users(value).empty() && !edit.is_output(value));
}

bool drops_nothing(const GraphEditor& edit, const Node& node) {
  if (node.outputs.size() > 1 && !nobody_wants(edit, node.outputs[1])) return false;
  if (node.version < 7) return node.attributes.flag("is_test");
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return true;
  const Tensor& trains = edit.constant(node.inputs[2]);
  return trains && trains.size() == 1 && !trains.values<bool>()[0];
}

bool takes_all(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (node.inputs.size() < 5 || node.inputs[4] == kNoValue) return true;
  const auto steps = integers(edit, node.inputs[4]);
  return steps && std::all_of(steps->begin(), steps->end(), [](auto step) { return step == 1; });
}

bool adds_no_edge(const GraphEditor& edit, NodeId id) {
  const auto pads = list_of(edit, id, 1, edit.node(id).version < 2 ? "paddings" : "pads");
  return pads && std::all_of(pads->begin(), pads->end(), [](auto pad) { return pad == 0; });
}

bool keeps_numbers(const GraphEditor& edit, NodeId id) {
  const auto found = scalar_operand(edit, id);
  if (!found) return false;
  const std::string& op = edit.node(id).op;
  if (op == "Add") return found->scalar == 0;
  if (op == "Mul") return found->scalar == 1;
  if (found->scalar_first) return false;
  return (op == "Sub" && found->scalar == 0) ||
         ((op == "Div" || op == "Pow") && found->scalar == 1);
}

// Whether output 0 equals input 0.
bool changes_nothing(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!node.domain.empty() || node.inputs.empty() || node.inputs[0] == kNoValue) return false;
  const std::string& op = node.op;
  if (op == "Identity") return true;
  if (op == "Dropout") return drops_nothing(edit, node);
  const bool one = node.inputs.size() == 1;
  if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean") return one;
  if (node.outputs.size() != 1 || !same_type(edit, id)) return false;
  if (op == "Cast" || op == "CastLike" || op == "Expand" || op == "Split") return true;
  if (op == "Tile") return edit.type(node.inputs[0]).shape.size() > 0;
  if (op == "Slice") return takes_all(edit, id);
  return op == "Pad" && adds_no_edge(edit, id);
}

bool without_effect(GraphEditor& edit, NodeId id) {
  if (changes_nothing(edit, id)) {
    bypass(edit, id, edit.node(id).inputs[0]);
    return true;
  }
  if (!keeps_numbers(edit, id)) return false;
  bypass(edit, id, scalar_operand(edit, id)->value);
  return true;
}

// Merges consecutive views, and converts all of them to Reshape.
bool views(GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_view(node) || node.inputs[0] == kNoValue) return false;
  const ValueId out = node.outputs[0];
  ValueId from = node.inputs[0];
  for (NodeId maker = edit.producer(from); maker != kNoNode && is_view(edit.node(maker));
       maker = edit.producer(from))
    from = edit.node(maker).inputs[0];
  if (edit.type(from) == edit.type(out)) {
    bypass(edit, id, from);
    return true;
  }
  if (node.op == "Reshape" && from == node.inputs[0]) return false;
  replace_node(edit, id, reshape_node(edit, node.name, from, out));
  return true;
}

bool is_same_order(const Order& order) {
  Order same(order.size());
  std::iota(same.begin(), same.end(), 0);
  return order == same;
}

bool merge_transposes(GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_onnx(node, "Transpose")) return false;
  const Order order = order_of(edit, id);
  if (is_same_order(order)) {
    bypass(edit, id, node.inputs[0]);
    return true;
  }
  const NodeId before = edit.producer(node.inputs[0], "Transpose");
  if (before == kNoNode) return false;
  const Order both = composed(order_of(edit, before), order);
  const ValueId from = edit.node(before).inputs[0];
  if (is_same_order(both))
    bypass(edit, id, from);
  else
    replace_node(edit, id, transpose_node(node.name, from, node.outputs[0], both));
  return true;
}

bool sum_of_two(GraphEditor& edit, NodeId id) {
  Node& node = edit.node(id);
  if (!is_onnx(node, "Sum") || node.inputs.size() != 2 || node.version < 8) return false;
  node.op = "Add";
  return true;
}

// Moves an Expand behind an elementwise operator, which then processes fewer elements. Scalars may
// have more axes than the source of the Expand.
bool commutes_with_expand(const Node& node) {
  constexpr std::string_view kOps[] = {
      "Add",   "Sub",   "Mul",  "Div",     "Cast", "Not", "Neg",         "Exp",
      "Where", "Equal", "Less", "Greater", "And",  "Or",  "LessOrEqual", "GreaterOrEqual"};
  return node.outputs.size() == 1 && is_onnx(node, node.op) &&
         std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps);
}

// The common source of all expanded inputs besides scalars; none if they differ.
std::optional<Shape> expanded_from(const GraphEditor& edit, const Node& node, const Shape& to) {
  std::optional<Shape> from;
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) return {};
    if (edit.constant(input) && edit.constant(input).size() == 1) continue;
    const NodeId expand = edit.producer(input, "Expand");
    if (expand == kNoNode || !edit.used_once(input) || edit.type(input).shape != to) return {};
    const Shape shape = edit.type(edit.node(expand).inputs[0]).shape;
    if (from && *from != shape) return {};
    from = shape;
  }
  return from;
}

bool expand_after_elementwise(GraphEditor& edit, NodeId id) {
  if (!commutes_with_expand(edit.node(id))) return false;
  const ValueId out = edit.node(id).outputs[0];
  const TensorType type = edit.type(out);
  const auto from = expanded_from(edit, edit.node(id), type.shape);
  if (!from || from->size() == type.shape.size()) return false;
  Node node = edit.node(id);
  Node expand{.name = node.name + "/expand", .op = "Expand", .domain = "", .version = 13};
  for (ValueId& input : node.inputs)
    if (const NodeId maker = edit.producer(input, "Expand"); maker != kNoNode)
      input = edit.node(maker).inputs[0];
  Shape small;
  for (const ValueId input : node.inputs) small = broadcast(small, edit.type(input).shape);
  node.outputs[0] = edit.add_value(node.name + "/small", {type.dtype, small});
  const ValueId shape = edit.add_constant(
      expand.name + "/shape", Tensor::of(std::span<const std::int64_t>(type.shape.dims())));
  expand.inputs = {node.outputs[0], shape};
  expand.outputs = {out};
  edit.add(std::move(node));
  replace_node(edit, id, std::move(expand));
  return true;
}

// A transpose that only moves axes of size 1 leaves the elements in place.
bool keeps_element_order(const Shape& shape, const Order& order) {
  int last = -1;
  for (const int axis : order) {
    if (shape[axis] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// The identity of a value for comparison; small constants compare by content.
std::string identity_of(const GraphEditor& edit, ValueId value) {
  constexpr std::size_t kSmall = 256;
  if (value == kNoValue) return "-";
  const Tensor& tensor = edit.constant(value);
  if (!tensor || tensor.dtype() == DType::string || tensor.bytes() > kSmall)
    return std::to_string(value);
  std::string key = std::string(to_string(tensor.dtype())) + to_string(tensor.shape());
  key.append(static_cast<const char*>(tensor.data()), tensor.bytes());
  return key;
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::to_string(value.size()) + ':' + value;
  } else {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
}

// None if an attribute has a type that cannot be compared.
std::optional<std::string> attributes_of(const Node& node) {
  std::string key;
  bool simple = true;
  for (const auto& [name, value] : node.attributes.all()) {
    key += name + '=' + std::to_string(value.index()) + ' ';
    std::visit(
        [&]<class T>(const T& held) {
          if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
            key += text_of(held);
          else if constexpr (std::is_same_v<T, Attributes::Integers> ||
                             std::is_same_v<T, Attributes::Reals> ||
                             std::is_same_v<T, Attributes::Strings>)
            for (const auto& item : held) key += text_of(item);
          else
            simple = false;
        },
        value);
    key += ';';
  }
  if (!simple) return {};
  return key;
}

std::optional<std::string> key_of(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (is_random(node) || !node.subgraphs.empty()) return {};
  const auto attributes = attributes_of(node);
  if (!attributes) return {};
  std::string key =
      node.op + '|' + node.domain + '|' + std::to_string(node.version) + '|' + *attributes + '|';
  for (const ValueId output : node.outputs) key += output == kNoValue ? '-' : '+';
  for (const ValueId input : node.inputs) key += identity_of(edit, input) + ',';
  return key;
}

}  // namespace

int simplify(GraphEditor& edit) {
  constexpr bool (*kRules[])(GraphEditor&, NodeId) = {without_effect, views, merge_transposes,
                                                      sum_of_two, expand_after_elementwise};
  int changes = 0;
  for (const NodeId id : edit.nodes())
    for (const auto rule : kRules) {
      if (edit.removed(id)) break;
      if (rule(edit, id)) ++changes;
    }
  return changes;
}

int transposes_to_views(GraphEditor& edit) {
  int changes = 0;
  for (const NodeId id : edit.nodes()) {
    if (edit.removed(id) || !is_onnx(edit.node(id), "Transpose")) continue;
    const ValueId from = edit.node(id).inputs[0], to = edit.node(id).outputs[0];
    if (!keeps_element_order(edit.type(from).shape, order_of(edit, id))) continue;
    replace_node(edit, id, reshape_node(edit, edit.node(id).name, from, to));
    ++changes;
  }
  return changes;
}

int merge_equal(GraphEditor& edit) {
  // Bounds the search through the inputs of users, which is quadratic for very many inputs.
  constexpr std::size_t kMaxComparisons = 100'000'000;
  std::size_t looks = 0;
  int changes = 0;
  std::map<std::string, NodeId> first;
  for (const NodeId id : edit.nodes()) {
    const auto key = key_of(edit, id);
    if (!key) continue;
    const auto [found, added] = first.emplace(*key, id);
    if (added) continue;
    for (const ValueId value : edit.node(id).outputs)
      if (value != kNoValue)
        for (const NodeId user : edit.users(value)) looks += edit.node(user).inputs.size();
    if (looks > kMaxComparisons) break;
    const std::vector<ValueId> before = edit.node(found->second).outputs;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (before[i] != kNoValue) edit.replace(edit.node(id).outputs[i], before[i]);
    edit.remove(id);
    ++changes;
  }
  return changes;
}

}  // namespace sluice::engine
