#include "engine/graph/graph_editor.h"

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace sluice::engine {
namespace {

std::size_t at(int id) { return static_cast<std::size_t>(id); }

}  // namespace

Derived::Derived(const Graph& graph) {
  for (const Value& value : graph.values)
    if (value.constant) lasting_.insert(value.constant.data());
}

Tensor Derived::get(std::span<const Tensor> from, const std::string& way,
                    const std::function<Tensor()>& make) {
  const Lock lock(mutex_);
  std::vector<const void*> key;
  std::string how = way;
  for (const Tensor& tensor : from) {
    if (!lasting_.contains(tensor.data())) return make();
    key.push_back(tensor.data());
    how += ' ' + to_string(tensor.shape());  // the same elements may be seen in two shapes
  }
  std::pair place(std::move(key), std::move(how));
  if (const Made* const known = made_.find(place)) return known->result;
  Tensor result = make();
  lasting_.insert(result.data());
  // What others were made of stays with them, so that its address is not another's.
  for (const Made& gone : made_.add(std::move(place), {{from.begin(), from.end()}, result}))
    lasting_.erase(lasting_.find(gone.result.data()));
  return result;
}

std::size_t Derived::count() const {
  const Lock lock(mutex_);
  return made_.size();
}

Editor::Editor(Graph& graph, Derived* derived)
    : graph_(&graph),
      derived_(derived),
      removed_(graph.nodes.size()),
      maker_(graph.values.size(), kNoNode),
      users_(graph.values.size()),
      given_(graph.values.size()) {
  for (const ValueId value : graph.outputs) ++given_[at(value)];
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    place_.push_back(id);
    for (const ValueId value : graph.nodes[i].inputs) use(id, value);
    for (const ValueId value : graph.nodes[i].outputs)
      if (value != kNoValue) maker_[at(value)] = id;
  }
}

std::vector<NodeId> Editor::nodes() const {
  std::vector<NodeId> all;
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i)
    if (!removed_[i]) all.push_back(static_cast<NodeId>(i));
  return all;
}

NodeId Editor::maker(ValueId value) const {
  return value == kNoValue ? kNoNode : maker_[at(value)];
}

NodeId Editor::maker(ValueId value, std::string_view op, std::string_view domain) const {
  const NodeId id = maker(value);
  return id != kNoNode && node(id).op == op && node(id).domain == domain ? id : kNoNode;
}

const std::vector<NodeId>& Editor::users(ValueId value) const { return users_[at(value)]; }

bool Editor::is_output(ValueId value) const { return value != kNoValue && given_[at(value)] > 0; }

void Editor::set_graph_output(std::size_t i, ValueId value) {
  ValueId& output = graph_->outputs[i];
  --given_[at(output)];
  ++given_[at(value)];
  output = value;
}

const Tensor& Editor::constant(ValueId value) const {
  static const Tensor none;
  return value == kNoValue ? none : (*graph_)[value].constant;
}

std::optional<float> Editor::scalar(ValueId value) const {
  const Tensor& tensor = constant(value);
  if (!tensor || tensor.size() != 1) return std::nullopt;
  switch (tensor.dtype()) {
    case DType::f32: return tensor.values<float>()[0];
    case DType::f64: return static_cast<float>(tensor.values<double>()[0]);
    case DType::f16: return static_cast<float>(tensor.values<Half>()[0]);
    case DType::bf16: return static_cast<float>(tensor.values<BFloat16>()[0]);
    default: return std::nullopt;
  }
}

ValueId Editor::add_constant(std::string name, Tensor tensor) {
  const ValueId id = add_value(std::move(name), {tensor.dtype(), tensor.shape()});
  (*graph_)[id].constant = std::move(tensor);
  return id;
}

ValueId Editor::derive(const std::vector<ValueId>& from, const std::string& way,
                       const std::function<Tensor()>& make) {
  std::vector<Tensor> tensors;
  for (const ValueId value : from) tensors.push_back(constant(value));
  return add_constant((*graph_)[from[0]].name + ' ' + way,
                      derived_ == nullptr ? make() : derived_->get(tensors, way, make));
}

ValueId Editor::add_value(std::string name, const TensorType& type) {
  Value value{.name = std::move(name), .dtype = type.dtype, .dims = std::vector<Dim>()};
  for (const std::int64_t size : type.shape) value.dims->push_back({size, ""});
  graph_->values.push_back(std::move(value));
  maker_.push_back(kNoNode);
  users_.emplace_back();
  given_.push_back(0);
  return static_cast<ValueId>(graph_->values.size() - 1);
}

NodeId Editor::place_of(const Node& added) const {
  for (const ValueId value : added.outputs)
    if (maker(value) != kNoNode) return place_[at(maker(value))];
  NodeId last = 0;
  for (const ValueId value : added.inputs)
    if (maker(value) != kNoNode) last = std::max(last, place_[at(maker(value))]);
  return last;
}

NodeId Editor::add(Node added, NodeId like) {
  const auto id = static_cast<NodeId>(graph_->nodes.size());
  place_.push_back(like == kNoNode ? place_of(added) : place_[at(like)]);
  for (const ValueId value : added.inputs) use(id, value);
  for (const ValueId value : added.outputs)
    if (value != kNoValue) maker_[at(value)] = id;
  graph_->nodes.push_back(std::move(added));
  removed_.push_back(false);
  return id;
}

void Editor::set_input(NodeId id, std::size_t i, ValueId to) {
  ValueId& input = node(id).inputs[i];
  unuse(id, input);
  input = to;
  use(id, to);
}

void Editor::add_input(NodeId id, ValueId value) {
  node(id).inputs.push_back(value);
  use(id, value);
}

void Editor::set_output(NodeId id, ValueId value) {
  ValueId& output = node(id).outputs[0];
  if (output == value) return;
  if (output != kNoValue) maker_[at(output)] = kNoNode;
  const NodeId before = maker(value);
  if (before != kNoNode)
    for (ValueId& other : node(before).outputs)
      if (other == value) other = kNoValue;
  output = value;
  maker_[at(value)] = id;
}

void Editor::replace(ValueId from, ValueId to) {
  for (const NodeId id : std::vector<NodeId>(users(from)))
    for (std::size_t i = 0; i < node(id).inputs.size(); ++i)
      if (node(id).inputs[i] == from) set_input(id, i, to);
  for (std::size_t i = 0; given_[at(from)] > 0; ++i)
    if (graph_->outputs[i] == from) set_graph_output(i, to);
}

void Editor::remove(NodeId id) {
  removed_[at(id)] = true;
  for (const ValueId value : node(id).inputs) unuse(id, value);
  for (const ValueId value : node(id).outputs)
    if (value != kNoValue && maker_[at(value)] == id) maker_[at(value)] = kNoNode;
}

void Editor::use(NodeId id, ValueId value) {
  if (value != kNoValue) users_[at(value)].push_back(id);
}

void Editor::unuse(NodeId id, ValueId value) {
  if (value == kNoValue) return;
  std::vector<NodeId>& users = users_[at(value)];
  const auto found = std::find(users.begin(), users.end(), id);
  if (found != users.end()) users.erase(found);
}

void Editor::remove_dead() {
  bool changed = true;
  while (changed) {
    changed = false;
    const std::vector<NodeId> all = nodes();
    for (auto id = all.rbegin(); id != all.rend(); ++id) {
      const std::vector<ValueId>& outputs = node(*id).outputs;
      const bool used = std::any_of(outputs.begin(), outputs.end(), [&](ValueId value) {
        return value != kNoValue && (!users(value).empty() || is_output(value));
      });
      if (used) continue;
      remove(*id);
      changed = true;
    }
  }
}

void Editor::finish() {
  remove_dead();
  // Kahn's order, the earliest of those that are ready first.
  std::vector<int> waits(graph_->nodes.size());
  using Placed = std::pair<NodeId, NodeId>;  // place, node
  std::priority_queue<Placed, std::vector<Placed>, std::greater<>> ready;
  const auto add_ready = [&](NodeId id) { ready.emplace(place_[at(id)], id); };
  for (const NodeId id : nodes()) {
    for (const ValueId value : node(id).inputs) waits[at(id)] += maker(value) != kNoNode ? 1 : 0;
    if (waits[at(id)] == 0) add_ready(id);
  }
  std::vector<Node> ordered;
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    for (const ValueId value : node(id).outputs)
      if (value != kNoValue)
        for (const NodeId user : users(value))
          if (--waits[at(user)] == 0) add_ready(user);
    ordered.push_back(std::move(node(id)));
  }
  if (ordered.size() != nodes().size()) throw Error(Code::internal, "an optimisation made a cycle");
  graph_->nodes = std::move(ordered);
  *this = Editor(*graph_, derived_);
}

Node fused(std::string op, std::string name, std::vector<ValueId> inputs,
           std::vector<ValueId> outputs) {
  return {.name = std::move(name),
          .op = std::move(op),
          .domain = std::string(kFused),
          .version = 1,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

}  // namespace sluice::engine
