// Graphs built node by node, for tests.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice::engine {

class GraphBuilder {
 public:
  explicit GraphBuilder(int opset = 17) : opset_(opset) {}

  ValueId input(std::string name, DType dtype = DType::f32) {
    graph_.inputs.push_back(value(std::move(name)));
    graph_[graph_.inputs.back()].dtype = dtype;
    return graph_.inputs.back();
  }
  ValueId constant(Tensor tensor) {
    const ValueId id = value("constant" + std::to_string(graph_.values.size()));
    graph_[id].constant = std::move(tensor);
    return id;
  }
  ValueId integers(std::vector<std::int64_t> list) {
    return constant(Tensor::of(std::span<const std::int64_t>(list)));
  }
  ValueId node(std::string op, std::vector<ValueId> inputs,
               std::vector<std::pair<std::string, Attributes::Any>> attributes = {},
               std::string domain = "") {
    const ValueId made = value(op + std::to_string(graph_.values.size()));
    Node added{.name = graph_[made].name,
               .op = std::move(op),
               .domain = std::move(domain),
               .version = opset_,
               .inputs = std::move(inputs),
               .outputs = {made}};
    for (auto& [name, any] : attributes) added.attributes.set(name, std::move(any));
    graph_.nodes.push_back(std::move(added));
    return made;
  }
  GraphBuilder& output(ValueId id) {
    graph_.outputs.push_back(id);
    return *this;
  }
  Graph take() { return std::move(graph_); }

 private:
  ValueId value(std::string name) {
    graph_.values.push_back({.name = std::move(name)});
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph graph_;
  int opset_;
};

}  // namespace sluice::engine
