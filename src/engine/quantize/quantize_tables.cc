#include "engine/quantize/quantize_tables.h"

#include <algorithm>
#include <map>

#include "engine/quantize/quantize_weights.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kWorth = 1 << 16;  // elements of a table

class Tables {
 public:
  Tables(Graph& graph, const std::set<std::string>& keep) : graph_(graph) {
    for (const ValueId id : graph.inputs) used_otherwise_.insert(id);
    for (const ValueId id : graph.outputs) used_otherwise_.insert(id);
    for (const Node& node : graph.nodes) {
      const bool takes = looks_up(node) && !keep.contains(node.name);
      for (std::size_t i = takes ? 1 : 0; i < node.inputs.size(); ++i)
        used_otherwise_.insert(node.inputs[i]);
      for (const auto& [name, body] : node.bodies)
        for (const Graph::Captured& captured : body->captured)
          used_otherwise_.insert(captured.outside);
    }
  }

  int run() {
    for (Node& node : graph_.nodes)
      if (looks_up(node) && !used_otherwise_.contains(node.inputs[0]))
        put(node, small_of(node.inputs[0]));
      else
        nodes_.push_back(std::move(node));
    graph_.nodes = std::move(nodes_);
    return static_cast<int>(small_.size());
  }

 private:
  struct Small {
    ValueId values, scales;
  };

  bool looks_up(const Node& node) const {
    if (node.op != "Gather" || !node.domain.empty() || node.inputs.size() != 2 ||
        node.attributes.integer("axis", 0) != 0)
      return false;
    const Tensor& table = graph_[node.inputs[0]].constant;
    return table.dtype() == DType::f32 && table.rank() == 2 && table.size() >= kWorth;
  }

  ValueId add(std::string name, DType dtype, const Tensor& constant = {}) {
    graph_.values.push_back({.name = std::move(name), .dtype = dtype});
    graph_.values.back().constant = constant;
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Small small_of(ValueId table) {
    const auto [found, is_new] = small_.try_emplace(table, Small{});
    if (!is_new) return found->second;
    const SmallWeights small = int8_weights(graph_[table].constant, 0);
    const std::string name = graph_[table].name;
    const Tensor scales = small.scales.reshaped({small.scales.size(), 1});
    return found->second = {add(name + "/small", DType::i8, small.values),
                            add(name + "/scales", DType::f32, scales)};
  }

  void put(const Node& gather, const Small& small) {
    const std::string name = gather.name;
    const auto node = [&](std::string op, const std::string& what, std::vector<ValueId> inputs,
                          DType dtype) {
      nodes_.push_back({.name = name + what,
                        .op = std::move(op),
                        .domain = "",
                        .version = gather.version,
                        .inputs = std::move(inputs),
                        .outputs = {add(name + what, dtype)}});
      return nodes_.back().outputs[0];
    };
    const ValueId rows = node("Gather", "/small", {small.values, gather.inputs[1]}, DType::i8);
    const ValueId scales = node("Gather", "/scales", {small.scales, gather.inputs[1]}, DType::f32);
    const ValueId wide = node("Cast", "/wide", {rows}, DType::f32);
    nodes_.back().attributes.set("to", static_cast<std::int64_t>(DType::f32));
    node("Mul", "/scaled", {wide, scales}, DType::f32);
    nodes_.back().outputs = gather.outputs;
  }

  Graph& graph_;
  std::set<ValueId> used_otherwise_;
  std::map<ValueId, Small> small_;
  std::vector<Node> nodes_;
};

}  // namespace

int quantize_tables(Graph& graph, const std::set<std::string>& keep) {
  return Tables(graph, keep).run();
}

}  // namespace sluice::engine
