// A model, ready to run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compute/workers.h"
#include "engine/op.h"

namespace sluice::engine {

// Safe to run from several threads at once. Node by node on the CPU; a value is dropped
// after its last use.
class Session {
 public:
  // Throws unavailable, naming operator and node, where there is one that no one can run.
  // `memory`: the most bytes that values of all its runs take at once; 0: no limit but the
  // machine's. Past it a run throws exhausted.
  Session(Graph graph, compute::Workers& workers, std::size_t memory = 0);
  ~Session();

  const Graph& graph() const noexcept;

  // Values in the order of graph().inputs; results in that of graph().outputs. Errors name
  // the node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
