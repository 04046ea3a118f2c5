#include "engine/session.h"

#include <map>

namespace sluice::engine {
namespace {

// One graph or body: the operator of each node, and which values each node is the last to use.
struct Steps {
  std::vector<const Op*> ops;
  std::vector<std::vector<ValueId>> dropped;

  explicit Steps(const Graph& graph) {
    std::vector<int> last(graph.values.size(), -1);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const Op* const op = find_op(node);
      if (op == nullptr) {
        const std::string domain = node.domain.empty() ? "" : node.domain + ".";
        throw Error(Code::unavailable, describe(node) + ": operator " + domain + node.op +
                                           " of opset " + std::to_string(node.version) +
                                           " is not supported");
      }
      ops.push_back(op);
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
};

using StepsByGraph = std::map<const Graph*, Steps>;

void prepare(const Graph& graph, StepsByGraph& all) {
  all.emplace(&graph, Steps(graph));
  for (const Node& node : graph.nodes)
    for (const auto& [name, body] : node.bodies) prepare(*body, all);
}

// One run of a graph.
class Run final : public BodyRunner {
 public:
  Run(const Graph& graph, const StepsByGraph& steps, compute::Workers& workers)
      : graph_(graph), all_steps_(steps), workers_(workers), values_(graph.values.size()) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (graph.values[i].constant) values_[i] = graph.values[i].constant;
  }

  std::vector<Datum> run(std::span<const Datum> inputs) {
    require(inputs.size() == graph_.inputs.size(),
            "the model takes " + std::to_string(graph_.inputs.size()) + " inputs, not " +
                std::to_string(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) at(graph_.inputs[i]) = inputs[i];
    const Steps& steps = all_steps_.at(&graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      step(graph_.nodes[i], *steps.ops[i]);
      for (const ValueId id : steps.dropped[i]) at(id) = Datum();
    }
    std::vector<Datum> results;
    for (const ValueId id : graph_.outputs) results.push_back(at(id));
    return results;
  }

  std::vector<Datum> run(const Graph& body, std::span<const Datum> inputs) override {
    Run inner(body, all_steps_, workers_);
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
      check_type(op, inputs);
      OpCall call(node, inputs, outputs, workers_, *this);
      op.run(call);
    } catch (const Error& error) {
      throw Error(error.code(), describe(node) + ": " + std::string(error.reason()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) at(node.outputs[i]) = std::move(outputs[i]);
  }

  static void check_type(const Op& op, const std::vector<Datum>& inputs) {
    for (const Datum& input : inputs) {
      if (input.kind != Datum::Kind::tensor) continue;
      if (!op.types.has(input.tensor.dtype())) unsupported_type(input.tensor.dtype());
      return;
    }
  }

  const Graph& graph_;
  const StepsByGraph& all_steps_;
  compute::Workers& workers_;
  std::vector<Datum> values_;
};

}  // namespace

struct Session::Impl {
  Graph graph;
  compute::Workers& workers;
  std::shared_ptr<memory::Allocator> memory;  // none: the system's
  StepsByGraph steps{};
};

Session::Session(Graph graph, compute::Workers& workers, std::size_t memory)
    : impl_(std::make_unique<Impl>(
          Impl{std::move(graph), workers, memory > 0 ? limited_memory(memory) : nullptr})) {
  prepare(impl_->graph, impl_->steps);
}

Session::~Session() = default;

const Graph& Session::graph() const noexcept { return impl_->graph; }

std::vector<Datum> Session::run(std::span<const Datum> inputs) const {
  std::optional<TensorMemory> limit;
  if (impl_->memory) limit.emplace(impl_->memory);
  return Run(impl_->graph, impl_->steps, impl_->workers).run(inputs);
}

}  // namespace sluice::engine
