#include "engine/ops/interpreter.h"

namespace sluice::engine {
namespace {

using ScheduleByGraph = Interpreter::ScheduleByGraph;

void prepare(const Graph& graph, ScheduleByGraph& all) {
  all.emplace(&graph, Interpreter::Schedule(graph));
  for (const Node& node : graph.nodes)
    for (const auto& [name, body] : node.subgraphs) prepare(*body, all);
}

// The number of nodes a call has run in all graphs.
struct Count {
  std::int64_t nodes = 0;
  const std::int64_t max;

  void add() {
    require(nodes < max, "stopped after " + std::to_string(max) +
                             " nodes: a loop has no end, or takes too long");
    ++nodes;
  }
};

// One run of a graph.
class Run final : public SubgraphRunner {
 public:
  Run(const Graph& graph, const ScheduleByGraph& schedules, compute::Workers& workers, Count& count)
      : graph_(graph),
        schedules_(schedules),
        workers_(workers),
        count_(count),
        values_(graph.values.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (graph.values[i].constant) values_[i] = graph.values[i].constant;
  }

  std::vector<Datum> run(std::span<const Datum> inputs) {
    require(inputs.size() == graph_.inputs.size(),
            "the model takes " + std::to_string(graph_.inputs.size()) + " inputs, not " +
                std::to_string(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) at(graph_.inputs[i]) = inputs[i];
    const Interpreter::Schedule& schedule = schedules_.at(&graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      step(graph_.nodes[i], *schedule.ops[i]);
      for (const ValueId id : schedule.last_used[i]) at(id) = Datum();
    }
    std::vector<Datum> results;
    for (const ValueId id : graph_.outputs) results.push_back(at(id));
    return results;
  }

  std::vector<Datum> run(const Graph& body, std::span<const Datum> inputs) override {
    count_.add();  // bounds loops with empty bodies too
    Run inner(body, schedules_, workers_, count_);
    for (const Graph::Captured& captured : body.captured)
      inner.at(captured.inner) = at(captured.outer);
    return inner.run(inputs);
  }

 private:
  Datum& at(ValueId id) { return values_[static_cast<std::size_t>(id)]; }

  void step(const Node& node, const Op& op) {
    std::vector<Datum> inputs, outputs(node.outputs.size());
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? Datum() : at(id));
    try {
      count_.add();
      check_type(op, inputs);
      OpCall call(node, inputs, outputs, workers_, *this);
      op.run(call);
    } catch (const Error& error) {
      throw Error(error.code(), describe(node) + ": " + std::string(error.reason()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) at(node.outputs[i]) = std::move(outputs[i]);
  }

  const Graph& graph_;
  const ScheduleByGraph& schedules_;
  compute::Workers& workers_;
  Count& count_;
  std::vector<Datum> values_;
};

}  // namespace

Interpreter::Schedule::Schedule(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    ops.push_back(&op_of(node));
    const auto use = [&](ValueId id) {
      if (id != kNoValue) last[static_cast<std::size_t>(id)] = static_cast<int>(i);
    };
    for (const ValueId id : node.inputs) use(id);
    for (const ValueId id : node.outputs) use(id);
    for (const auto& [name, body] : node.subgraphs)
      for (const Graph::Captured& captured : body->captured) use(captured.outer);
  }
  for (const ValueId id : graph.outputs) last[static_cast<std::size_t>(id)] = -1;
  last_used.resize(graph.nodes.size());
  for (std::size_t id = 0; id < last.size(); ++id)
    if (last[id] >= 0 && !graph.values[id].constant)
      last_used[static_cast<std::size_t>(last[id])].push_back(static_cast<ValueId>(id));
}

Interpreter::Interpreter(const Graph& graph, compute::Workers& workers, std::int64_t max_nodes)
    : graph_(graph), workers_(workers), max_nodes_(max_nodes) {
  prepare(graph_, schedules_);
}

std::vector<Datum> Interpreter::run(std::span<const Datum> inputs) const {
  Count count{.nodes = 0, .max = max_nodes_};
  return Run(graph_, schedules_, workers_, count).run(inputs);
}

}  // namespace sluice::engine
