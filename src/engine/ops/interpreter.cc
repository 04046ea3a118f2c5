#include "engine/ops/interpreter.h"

namespace sluice::engine {
namespace {

using StepsByGraph = Interpreter::StepsByGraph;

void prepare(const Graph& graph, StepsByGraph& all) {
  all.emplace(&graph, Interpreter::Steps(graph));
  for (const Node& node : graph.nodes)
    for (const auto& [name, body] : node.bodies) prepare(*body, all);
}

// How many nodes a call has run, in all its graphs.
struct Count {
  std::int64_t nodes = 0;
  const std::int64_t most;

  void add() {
    require(nodes < most, "stopped after " + std::to_string(most) +
                              " nodes: a loop has no end, or takes too long");
    ++nodes;
  }
};

// One run of a graph.
class Run final : public BodyRunner {
 public:
  Run(const Graph& graph, const StepsByGraph& steps, compute::Workers& workers, Count& count)
      : graph_(graph),
        all_steps_(steps),
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
    const Interpreter::Steps& steps = all_steps_.at(&graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      step(graph_.nodes[i], *steps.ops[i]);
      for (const ValueId id : steps.dropped[i]) at(id) = Datum();
    }
    std::vector<Datum> results;
    for (const ValueId id : graph_.outputs) results.push_back(at(id));
    return results;
  }

  std::vector<Datum> run(const Graph& body, std::span<const Datum> inputs) override {
    count_.add();  // so that loops over nothing end too
    Run inner(body, all_steps_, workers_, count_);
    for (const Graph::Captured& captured : body.captured)
      inner.at(captured.here) = at(captured.outside);
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
  const StepsByGraph& all_steps_;
  compute::Workers& workers_;
  Count& count_;
  std::vector<Datum> values_;
};

}  // namespace

Interpreter::Steps::Steps(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    ops.push_back(&op_of(node));
    const auto use = [&](ValueId id) {
      if (id != kNoValue) last[static_cast<std::size_t>(id)] = static_cast<int>(i);
    };
    for (const ValueId id : node.inputs) use(id);
    for (const ValueId id : node.outputs) use(id);
    for (const auto& [name, body] : node.bodies)
      for (const Graph::Captured& captured : body->captured) use(captured.outside);
  }
  for (const ValueId id : graph.outputs) last[static_cast<std::size_t>(id)] = -1;
  dropped.resize(graph.nodes.size());
  for (std::size_t id = 0; id < last.size(); ++id)
    if (last[id] >= 0 && !graph.values[id].constant)
      dropped[static_cast<std::size_t>(last[id])].push_back(static_cast<ValueId>(id));
}

Interpreter::Interpreter(const Graph& graph, compute::Workers& workers, std::int64_t most_nodes)
    : graph_(graph), workers_(workers), most_nodes_(most_nodes) {
  prepare(graph_, steps_);
}

std::vector<Datum> Interpreter::run(std::span<const Datum> inputs) const {
  Count count{.nodes = 0, .most = most_nodes_};
  return Run(graph_, steps_, workers_, count).run(inputs);
}

}  // namespace sluice::engine
