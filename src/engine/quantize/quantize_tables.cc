#include "engine/quantize/quantize_tables.h"

#include <algorithm>
#include <map>

#include "engine/passes/match.h"
#include "engine/quantize/quantize_weights.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kMinTableElements = 1 << 16;  // minimum elements of a table

class Tables {
 public:
  Tables(Graph& graph, const std::set<std::string>& keep) : graph_(graph) {
    for (const ValueId id : graph.inputs) other_uses_.insert(id);
    for (const ValueId id : graph.outputs) other_uses_.insert(id);
    for (const Node& node : graph.nodes) {
      const bool takes = is_table_lookup(node) && !keep.contains(node.name);
      for (std::size_t i = takes ? 1 : 0; i < node.inputs.size(); ++i)
        other_uses_.insert(node.inputs[i]);
      for (const auto& [name, body] : node.subgraphs)
        for (const Graph::Captured& captured : body->captured) other_uses_.insert(captured.outer);
    }
  }

  int run() {
    for (Node& node : graph_.nodes)
      if (is_table_lookup(node) && !other_uses_.contains(node.inputs[0]))
        replace_gather(node, quantized_table(node.inputs[0]));
      else
        nodes_.push_back(std::move(node));
    graph_.nodes = std::move(nodes_);
    return static_cast<int>(tables_.size());
  }

 private:
  struct QuantizedTable {
    ValueId values, scales;
  };

  bool is_table_lookup(const Node& node) const {
    if (node.op != "Gather" || !node.domain.empty() || node.inputs.size() != 2 ||
        !has_input(node, 0) || node.attributes.integer("axis", 0) != 0)
      return false;
    const Tensor& table = graph_[node.inputs[0]].constant;
    return table.dtype() == DType::f32 && table.rank() == 2 && table.size() >= kMinTableElements;
  }

  ValueId add(std::string name, DType dtype, const Tensor& constant = {}) {
    graph_.values.push_back({.name = std::move(name), .dtype = dtype});
    graph_.values.back().constant = constant;
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  QuantizedTable quantized_table(ValueId table) {
    const auto [found, is_new] = tables_.try_emplace(table, QuantizedTable{});
    if (!is_new) return found->second;
    const QuantizedWeights quantized = int8_weights(graph_[table].constant, 0);
    const std::string name = graph_[table].name;
    const Tensor scales = quantized.scales.reshaped({quantized.scales.size(), 1});
    return found->second = {add(name + "/quantized", DType::i8, quantized.values),
                            add(name + "/scale", DType::f32, scales)};
  }

  void replace_gather(const Node& gather, const QuantizedTable& table) {
    const std::string name = gather.name;
    const auto node = [&](std::string op, const std::string& suffix, std::vector<ValueId> inputs,
                          DType dtype) {
      nodes_.push_back({.name = name + suffix,
                        .op = std::move(op),
                        .domain = "",
                        .version = gather.version,
                        .inputs = std::move(inputs),
                        .outputs = {add(name + suffix, dtype)}});
      return nodes_.back().outputs[0];
    };
    const ValueId rows = node("Gather", "/quantized", {table.values, gather.inputs[1]}, DType::i8);
    const ValueId scales = node("Gather", "/scale", {table.scales, gather.inputs[1]}, DType::f32);
    const ValueId dequantized = node("Cast", "/dequantized", {rows}, DType::f32);
    nodes_.back().attributes.set("to", static_cast<std::int64_t>(DType::f32));
    node("Mul", "/scaled", {dequantized, scales}, DType::f32);
    nodes_.back().outputs = gather.outputs;
  }

  Graph& graph_;
  std::set<ValueId> other_uses_;
  std::map<ValueId, QuantizedTable> tables_;
  std::vector<Node> nodes_;
};

}  // namespace

int quantize_tables(Graph& graph, const std::set<std::string>& keep) {
  return Tables(graph, keep).run();
}

}  // namespace sluice::engine
