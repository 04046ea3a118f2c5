// A model, ready to run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/cuda/program.h"
#include "engine/op.h"
#include "engine/plan.h"

namespace sluice::engine {

struct SessionOptions {
  // The most bytes that values of all its runs take at once; 0: no limit but the machine's.
  // Past it a run throws exhausted.
  std::size_t memory = 0;
  // False: node by node, as the operators are. The reference for what is compiled.
  bool compile = true;
  // Where it runs; none: on the CPU. A graph that fails there for want of memory runs in
  // halves of its batch, one whose device fails on the CPU.
  std::shared_ptr<cuda::Context> gpu{};
  DType precision = DType::f32;  // on the GPU, of what is f32: f16 and bf16 too
};

// Safe to run from several threads at once. For each set of input shapes the graph is compiled
// once; one whose shapes depend on what its inputs hold runs node by node.
class Session {
 public:
  // Throws unavailable, naming operator and node, where there is one that no one can run.
  Session(Graph graph, compute::Workers& workers, SessionOptions options = {});
  // What the plan holds is not compiled again. Its key is the caller's to judge.
  Session(Plan plan, compute::Workers& workers, SessionOptions options = {});
  ~Session();

  const Graph& graph() const noexcept;

  // Values in the order of graph().inputs; results in that of graph().outputs. Errors name
  // the node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

  // What runs for inputs of these types (on the GPU where there is one), or why they run node
  // by node.
  struct Compiled {
    std::shared_ptr<const Program> program;  // null: node by node
    std::string why_not;
  };
  Compiled compiled(std::span<const TensorType> inputs) const;
  // Why the GPU is no longer used; empty while it is, or where there is none.
  std::string gpu_failure() const;

  // All that is compiled now.
  Plan plan(PlanKey key) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
