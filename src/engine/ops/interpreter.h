// Runs a graph node by node: the reference for compiled programs, and the fallback for graphs with
// data-dependent shapes.
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
  // `graph` must outlive it. A run fails after `max_nodes` nodes, counting each execution in a
  // subgraph, because a loop in a file may never end. Throws unavailable with operator and node if
  // an operator is not supported.
  Interpreter(const Graph& graph, compute::Workers& workers, std::int64_t max_nodes);

  // Values in the order of the graph's inputs and outputs. Errors name the node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

  // For one graph or subgraph: the operator of each node, and the values it uses last.
  struct Schedule {
    explicit Schedule(const Graph& graph);

    std::vector<const Op*> ops;
    std::vector<std::vector<ValueId>> last_used;
  };
  using ScheduleByGraph = std::map<const Graph*, Schedule>;

 private:
  const Graph& graph_;
  compute::Workers& workers_;
  const std::int64_t max_nodes_;
  ScheduleByGraph schedules_;
};

}  // namespace sluice::engine
