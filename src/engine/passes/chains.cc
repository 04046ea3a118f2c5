// Fuses connected elementwise operators to one Chain. Intermediate values must have no users
// outside the group, so that no path leaves and reenters it.
#include <algorithm>
#include <map>
#include <set>

#include "engine/passes/match.h"
#include "engine/passes/passes.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kMaxInputs = 8, kMaxInstructions = 32;
using Primitive = Chain::Op;

struct Known {
  std::string_view op;
  Primitive chain_op;
};
constexpr Known kOne[] = {
    {"Neg", Primitive::negate},
    {"Abs", Primitive::absolute},
    {"Reciprocal", Primitive::reciprocal},
    {"Sqrt", Primitive::square_root},
    {"Exp", Primitive::exponential},
    {"Log", Primitive::logarithm},
    {"Erf", Primitive::error_function},
    {"Tanh", Primitive::tanh},
    {"Sigmoid", Primitive::sigmoid},
    {"Relu", Primitive::relu},
    {"Softplus", Primitive::softplus},
    {"Floor", Primitive::floor},
    {"Ceil", Primitive::ceil},
    {"Sin", Primitive::sine},
    {"Cos", Primitive::cosine},
};
constexpr Known kTwo[] = {
    {"Add", Primitive::add},     {"Sub", Primitive::subtract}, {"Mul", Primitive::multiply},
    {"Div", Primitive::divide},  {"Pow", Primitive::power},    {"Min", Primitive::minimum},
    {"Max", Primitive::maximum},
};

template <std::size_t N>
std::optional<Primitive> find(const Known (&all)[N], std::string_view op) {
  for (const Known& known : all)
    if (known.op == op) return known.chain_op;
  return {};
}

// Chains compute in f32: the scalar operand of a node, if f32 holds its value.
std::optional<float> scalar_of(const GraphEditor& edit, ValueId value) {
  const auto exact = edit.scalar(value);
  if (!exact) return {};
  const auto number = static_cast<float>(*exact);
  if (edit.constant(value).dtype() == DType::f64 && static_cast<double>(number) != *exact)
    return {};
  return number;
}

// max(x, slope * x) is LeakyRelu for slopes in [0, 1].
bool is_slope(float alpha) { return alpha > 0 && alpha <= 1; }

bool is_chainable(const GraphEditor& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue || node.inputs.empty()) return false;
  const DType dtype = edit.type(node.outputs[0]).dtype;
  if (!is_fusable(dtype)) return false;
  for (const ValueId input : node.inputs)
    if (input != kNoValue && edit.type(input).dtype != dtype && !scalar_of(edit, input))
      return false;
  if (node.domain == kFused) return node.op == "Chain";
  if (!is_onnx(node, node.op)) return false;
  if (node.op == "Clip") return bounds_of(edit, id).has_value();
  if (node.op == "LeakyRelu") return is_slope(node.attributes.real("alpha", 0.01f));
  if (node.inputs.size() == 1) return node.op == "HardSigmoid" || find(kOne, node.op);
  return node.inputs.size() == 2 && find(kTwo, node.op) && node.inputs[0] != kNoValue &&
         node.inputs[1] != kNoValue;
}

class Group {
 public:
  Group(const GraphEditor& edit, NodeId root) : edit_(edit), root_(root), members_{root} {}

  const std::vector<ValueId>& inputs() const { return inputs_; }
  const Chain& chain() const { return chain_; }

  // Adds producers to the group as long as they fit; false if none does.
  bool grow() {
    while (take_one()) {
    }
    return build() && members_.size() > 1;
  }

 private:
  bool take_one() {
    for (const NodeId member : members_)
      for (const ValueId value : edit_.node(member).inputs) {
        const NodeId maker = edit_.producer(value);
        if (maker == kNoNode || members_.contains(maker) || refused_.contains(maker) ||
            !belongs(maker))
          continue;
        members_.insert(maker);
        if (build()) return true;
        members_.erase(maker);
        refused_.insert(maker);
        return true;
      }
    return false;
  }

  bool belongs(NodeId id) const {
    if (!is_chainable(edit_, id)) return false;
    const ValueId out = edit_.node(id).outputs[0];
    const std::vector<NodeId>& users = edit_.users(out);
    return edit_.type(out) == edit_.type(edit_.node(root_).outputs[0]) && !edit_.is_output(out) &&
           std::all_of(users.begin(), users.end(),
                       [&](NodeId user) { return members_.contains(user); });
  }

  // Builds the chain; false if it is too long, or if the shape comes from a constant that is not an
  // input of it.
  bool build() {
    inputs_.clear();
    numbers_.clear();
    chain_ = {};
    for (const NodeId id : members_)
      for (const ValueId value : edit_.node(id).inputs) note_input(value);
    chain_.inputs = static_cast<int>(inputs_.size());
    // Nodes are numbered in topological order.
    for (const NodeId id : members_) numbers_[edit_.node(id).outputs[0]] = add(id);
    Shape shape;
    for (const ValueId value : inputs_) shape = broadcast(shape, edit_.type(value).shape);
    return inputs_.size() <= kMaxInputs && chain_.instructions.size() <= kMaxInstructions &&
           shape == edit_.type(edit_.node(root_).outputs[0]).shape;
  }

  void note_input(ValueId value) {
    if (value == kNoValue || scalar_of(edit_, value) || numbers_.contains(value)) return;
    const NodeId maker = edit_.producer(value);
    if (maker != kNoNode && members_.contains(maker)) return;
    numbers_[value] = static_cast<int>(inputs_.size());
    inputs_.push_back(value);
  }

  int apply(Primitive op, int a, int b = -1) { return push({op, a, b, 0}); }
  int constant(float value) { return push({Primitive::constant, -1, -1, value}); }
  int push(const Chain::Instruction& added) {
    chain_.instructions.push_back(added);
    return chain_.inputs + static_cast<int>(chain_.instructions.size()) - 1;
  }
  int number(ValueId value) {
    if (const auto found = numbers_.find(value); found != numbers_.end()) return found->second;
    return numbers_[value] = constant(*scalar_of(edit_, value));
  }

  int add(NodeId id) {
    const Node& node = edit_.node(id);
    if (node.domain == kFused) return add_chain(node);
    const int x = number(node.inputs[0]);
    if (node.op == "Clip") return add_clip(id, x);
    if (node.op == "LeakyRelu")
      return apply(Primitive::maximum, x,
                   apply(Primitive::multiply, x, constant(node.attributes.real("alpha", 0.01f))));
    if (node.op == "HardSigmoid") {
      const int part = apply(Primitive::multiply, x, constant(node.attributes.real("alpha", 0.2f)));
      const int sum = apply(Primitive::add, part, constant(node.attributes.real("beta", 0.5f)));
      return apply(Primitive::maximum, apply(Primitive::minimum, sum, constant(1)), constant(0));
    }
    if (node.inputs.size() == 1) return apply(*find(kOne, node.op), x);
    if (node.op == "Pow" && edit_.scalar(node.inputs[1]) == 2.0)
      return apply(Primitive::multiply, x, x);
    return apply(*find(kTwo, node.op), x, number(node.inputs[1]));
  }

  int add_clip(NodeId id, int x) {
    const Bounds bounds = *bounds_of(edit_, id);
    if (bounds.low) x = apply(Primitive::maximum, x, constant(*bounds.low));
    if (bounds.high) x = apply(Primitive::minimum, x, constant(*bounds.high));
    return x;
  }

  int add_chain(const Node& node) {
    const Chain inner = chain_of(node.attributes, node.inputs.size());
    std::vector<int> at;
    for (const ValueId input : node.inputs) at.push_back(number(input));
    for (const Chain::Instruction& part : inner.instructions) {
      Chain::Instruction moved = part;
      if (part.a >= 0) moved.a = at[static_cast<std::size_t>(part.a)];
      if (part.b >= 0) moved.b = at[static_cast<std::size_t>(part.b)];
      at.push_back(push(moved));
    }
    return at.back();
  }

  const GraphEditor& edit_;
  NodeId root_;
  std::set<NodeId> members_, refused_;
  std::vector<ValueId> inputs_;
  std::map<ValueId, int> numbers_;  // value numbers in the chain
  Chain chain_;
};

// All members are removed with the root, because their values have no other users.
bool fuse(GraphEditor& edit, NodeId root) {
  Group group(edit, root);
  if (!group.grow()) return false;
  const Node& node = edit.node(root);
  Node chain = fused("Chain", node.name, group.inputs(), {node.outputs[0]});
  write(group.chain(), chain.attributes);
  replace_node(edit, root, std::move(chain));
  return true;
}

}  // namespace

int fuse_chains(GraphEditor& edit) {
  int changes = 0;
  std::vector<NodeId> nodes = edit.nodes();
  std::reverse(nodes.begin(), nodes.end());
  for (const NodeId id : nodes)
    if (!edit.removed(id) && is_chainable(edit, id) && fuse(edit, id)) ++changes;
  return changes;
}

}  // namespace sluice::engine
