#include "engine/graph/graph_editor.h"

#include <algorithm>
#include <queue>

#include "base/error.h"

namespace sluice::engine {
DerivedConstants::DerivedConstants(const Graph& graph) {
  for (const Value& value : graph.values)
    if (value.constant) persistent_.insert(value.constant.data());
}

Tensor DerivedConstants::get(std::span<const Tensor> from, const std::string& key,
                             const std::function<Tensor()>& make) {
  const Lock lock(mutex_);
  std::vector<const void*> sources;
  std::string how = key;
  for (const Tensor& tensor : from) {
    if (!persistent_.contains(tensor.data())) return make();
    sources.push_back(tensor.data());
    how += ' ' + to_string(tensor.shape());  // the same elements may have two shapes
  }
  std::pair entry(std::move(sources), std::move(how));
  if (const Made* const known = made_.find(entry)) return known->result;
  Tensor result = make();
  persistent_.insert(result.data());
  // Entries keep their sources alive, so that no other tensor gets the same address.
  for (const Made& gone : made_.add(std::move(entry), {{from.begin(), from.end()}, result}))
    persistent_.erase(persistent_.find(gone.result.data()));
  return result;
}

std::size_t DerivedConstants::count() const {
  const Lock lock(mutex_);
  return made_.size();
}

GraphEditor::GraphEditor(Graph& graph, DerivedConstants* derived)
    : graph_(&graph),
      derived_(derived),
      removed_(graph.nodes.size()),
      producer_(graph.values.size(), kNoNode),
      users_(graph.values.size()),
      output_uses_(graph.values.size()) {
  for (const ValueId value : graph.outputs) ++output_uses_[index_of(value)];
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    position_.push_back(id);
    for (const ValueId value : graph.nodes[i].inputs) use(id, value);
    for (const ValueId value : graph.nodes[i].outputs)
      if (value != kNoValue) producer_[index_of(value)] = id;
  }
}

std::vector<NodeId> GraphEditor::nodes() const {
  std::vector<NodeId> all;
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i)
    if (!removed_[i]) all.push_back(static_cast<NodeId>(i));
  return all;
}

NodeId GraphEditor::producer(ValueId value) const {
  return value == kNoValue ? kNoNode : producer_[index_of(value)];
}

NodeId GraphEditor::producer(ValueId value, std::string_view op, std::string_view domain) const {
  const NodeId id = producer(value);
  return id != kNoNode && node(id).op == op && node(id).domain == domain ? id : kNoNode;
}

const std::vector<NodeId>& GraphEditor::users(ValueId value) const {
  return users_[index_of(value)];
}

bool GraphEditor::is_output(ValueId value) const {
  return value != kNoValue && output_uses_[index_of(value)] > 0;
}

void GraphEditor::set_graph_output(std::size_t i, ValueId value) {
  ValueId& output = graph_->outputs[i];
  --output_uses_[index_of(output)];
  ++output_uses_[index_of(value)];
  output = value;
}

const Tensor& GraphEditor::constant(ValueId value) const {
  static const Tensor none;
  return value == kNoValue ? none : (*graph_)[value].constant;
}

std::optional<double> GraphEditor::scalar(ValueId value) const {
  const Tensor& tensor = constant(value);
  if (!tensor || tensor.size() != 1) return std::nullopt;
  switch (tensor.dtype()) {
    case DType::f32: return tensor.values<float>()[0];
    case DType::f64: return tensor.values<double>()[0];
    case DType::f16: return static_cast<double>(static_cast<float>(tensor.values<Half>()[0]));
    case DType::bf16: return static_cast<double>(static_cast<float>(tensor.values<BFloat16>()[0]));
    default: return std::nullopt;
  }
}

ValueId GraphEditor::add_constant(std::string name, Tensor tensor) {
  const ValueId id = add_value(std::move(name), {tensor.dtype(), tensor.shape()});
  (*graph_)[id].constant = std::move(tensor);
  return id;
}

ValueId GraphEditor::derive(const std::vector<ValueId>& from, const std::string& key,
                            const std::function<Tensor()>& make) {
  std::vector<Tensor> tensors;
  for (const ValueId value : from) tensors.push_back(constant(value));
  return add_constant((*graph_)[from[0]].name + ' ' + key,
                      derived_ == nullptr ? make() : derived_->get(tensors, key, make));
}

ValueId GraphEditor::add_value(std::string name, const TensorType& type) {
  Value value{.name = std::move(name), .dtype = type.dtype, .dims = std::vector<Dim>()};
  for (const std::int64_t size : type.shape) value.dims->push_back({size, ""});
  graph_->values.push_back(std::move(value));
  producer_.push_back(kNoNode);
  users_.emplace_back();
  output_uses_.push_back(0);
  return static_cast<ValueId>(graph_->values.size() - 1);
}

NodeId GraphEditor::position_of(const Node& added) const {
  for (const ValueId value : added.outputs)
    if (producer(value) != kNoNode) return position_[index_of(producer(value))];
  NodeId last = 0;
  for (const ValueId value : added.inputs)
    if (producer(value) != kNoNode) last = std::max(last, position_[index_of(producer(value))]);
  return last;
}

NodeId GraphEditor::add(Node added, NodeId like) {
  const auto id = static_cast<NodeId>(graph_->nodes.size());
  position_.push_back(like == kNoNode ? position_of(added) : position_[index_of(like)]);
  for (const ValueId value : added.inputs) use(id, value);
  for (const ValueId value : added.outputs)
    if (value != kNoValue) producer_[index_of(value)] = id;
  graph_->nodes.push_back(std::move(added));
  removed_.push_back(false);
  return id;
}

void GraphEditor::set_input(NodeId id, std::size_t i, ValueId to) {
  ValueId& input = node(id).inputs[i];
  unuse(id, input);
  input = to;
  use(id, to);
}

void GraphEditor::add_input(NodeId id, ValueId value) {
  node(id).inputs.push_back(value);
  use(id, value);
}

void GraphEditor::set_output(NodeId id, ValueId value) {
  ValueId& output = node(id).outputs[0];
  if (output == value) return;
  if (output != kNoValue) producer_[index_of(output)] = kNoNode;
  const NodeId before = producer(value);
  if (before != kNoNode)
    for (ValueId& other : node(before).outputs)
      if (other == value) other = kNoValue;
  output = value;
  producer_[index_of(value)] = id;
}

void GraphEditor::replace(ValueId from, ValueId to) {
  for (const NodeId id : std::vector<NodeId>(users(from)))
    for (std::size_t i = 0; i < node(id).inputs.size(); ++i)
      if (node(id).inputs[i] == from) set_input(id, i, to);
  for (std::size_t i = 0; output_uses_[index_of(from)] > 0; ++i)
    if (graph_->outputs[i] == from) set_graph_output(i, to);
}

void GraphEditor::remove(NodeId id) {
  removed_[index_of(id)] = true;
  for (const ValueId value : node(id).inputs) unuse(id, value);
  for (const ValueId value : node(id).outputs)
    if (value != kNoValue && producer_[index_of(value)] == id) producer_[index_of(value)] = kNoNode;
}

void GraphEditor::use(NodeId id, ValueId value) {
  if (value != kNoValue) users_[index_of(value)].push_back(id);
}

void GraphEditor::unuse(NodeId id, ValueId value) {
  if (value == kNoValue) return;
  std::vector<NodeId>& users = users_[index_of(value)];
  // From the back: dead nodes are removed in reverse order, also thousands of users of one value.
  const auto found = std::find(users.rbegin(), users.rend(), id);
  if (found != users.rend()) users.erase(std::next(found).base());
}

void GraphEditor::remove_dead() {
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

void GraphEditor::finish() {
  remove_dead();
  // Kahn's algorithm; the ready node with the lowest position comes first.
  std::vector<int> waits(graph_->nodes.size());
  using Placed = std::pair<NodeId, NodeId>;  // position, node
  std::priority_queue<Placed, std::vector<Placed>, std::greater<>> ready;
  const auto add_ready = [&](NodeId id) { ready.emplace(position_[index_of(id)], id); };
  for (const NodeId id : nodes()) {
    for (const ValueId value : node(id).inputs)
      waits[index_of(id)] += producer(value) != kNoNode ? 1 : 0;
    if (waits[index_of(id)] == 0) add_ready(id);
  }
  std::vector<Node> ordered;
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    for (const ValueId value : node(id).outputs)
      if (value != kNoValue)
        for (const NodeId user : users(value))
          if (--waits[index_of(user)] == 0) add_ready(user);
    ordered.push_back(std::move(node(id)));
  }
  if (ordered.size() != nodes().size())
    throw Error(Code::internal, "an optimization created a cycle");
  graph_->nodes = std::move(ordered);
  *this = GraphEditor(*graph_, derived_);
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
