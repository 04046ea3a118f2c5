// A graph run node by node, as its operators are: the reference for all that is compiled, and
// the way for graphs whose shapes depend on what their inputs hold.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/ops/op.h"

namespace sluice::engine {

// Safe to run from several threads at once. A value is dropped after its last use.
class Interpreter {
 public:
  // `graph` outlives it. A run ends with an error after `most_nodes`, those of bodies counted
  // each time: no file can say of itself that its loops end. Throws unavailable, naming operator
  // and node, where there is one that no one can run.
  Interpreter(const Graph& graph, compute::Workers& workers, std::int64_t most_nodes);

  // Values in the order of the graph's inputs and outputs. Errors name the node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

  // Of one graph or body: the operator of each node, and which values it is the last to use.
  struct Steps {
    explicit Steps(const Graph& graph);

    std::vector<const Op*> ops;
    std::vector<std::vector<ValueId>> dropped;
  };
  using StepsByGraph = std::map<const Graph*, Steps>;

 private:
  const Graph& graph_;
  compute::Workers& workers_;
  const std::int64_t most_nodes_;
  StepsByGraph steps_;
};

}  // namespace sluice::engine
