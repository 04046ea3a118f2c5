// A model, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "device/health/health.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/exec/gpu.h"
#include "engine/ops/op.h"
#include "engine/plan/plan.h"
#include "engine/session/fallbacks.h"
#include "engine/session/programs.h"

namespace sluice::engine {

struct SessionOptions {
  // The most bytes of the host's memory that it takes at once; 0: no limit but the machine's.
  // All that it makes counts: weights in the order that kernels read, arenas (kept ones too),
  // values, and results for as long as someone holds them. The model's own weights do not, nor
  // what the GPU has, whose limit is the allocator of the context.
  std::size_t memory = 0;
  // The most nodes of a call that runs node by node, those of a loop's body each time.
  std::int64_t nodes = 1'000'000'000;
  // False: node by node, as the operators are. The reference for what is compiled.
  bool compile = true;
  // Where it runs; none: on the CPU.
  std::shared_ptr<cuda::Context> gpu{};
  DType precision = DType::f32;  // on the GPU, of what is f32: f16 and bf16 too
  // The most that f16 or bf16 may lose, of the largest number of an output: nodes that would lose
  // too much stay in f32, and where that does not do, all of them. Measured when a graph is first
  // made, with its first inputs; see narrowing.h. Infinite: nothing is measured. None: 0.01, and
  // 0.08 in bf16.
  std::optional<double> max_loss{};
  // Encoders compute nothing for padding: for places where the mask that shuts them out of the
  // attention is 0, outputs are 0 instead of numbers that mean nothing. Models for which that is
  // not certain to be all that changes run as they are; see padding_kept().
  bool skip_padding = false;
  // Why the GPU must not be used now, by those who watch it; empty when it may. Quick.
  std::function<std::string()> veto{};
  device::HealthPolicy gpu_return{};  // when a GPU that failed is tried again
};

// Safe to run from several threads at once. For each set of input shapes the graph is compiled
// once; one whose shapes depend on what its inputs hold runs node by node.
//
// Out of memory: what is kept for later runs is given back, then the call runs in parts of its
// rows, half as many each time, where it is certain that rows do not depend on each other (see
// rows.h), and then, if it was for the GPU, on the CPU; so does a call that the GPU failed for the
// moment. Each is counted and warned of, see fallbacks(). A GPU that fails: calls that were on it
// and later ones run on the CPU until it computes again, which is tried after a second, then two,
// four, up to gpu_return's longest. A fault that ends CUDA for its process is for good here.
class Session {
 public:
  // Throws unavailable, naming operator and node, where there is one that no one can run.
  Session(Graph graph, compute::Workers& workers, SessionOptions options = {});
  // What the plan holds is not compiled again. Its key is the caller's to judge.
  Session(Plan plan, compute::Workers& workers, SessionOptions options = {});
  // On a GPU that is not CUDA's: a test's.
  Session(Graph graph, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
          SessionOptions options = {});
  Session(Plan plan, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
          SessionOptions options = {});
  ~Session();

  const Graph& graph() const noexcept;

  // Values in the order of graph().inputs; results in that of graph().outputs. Errors name
  // the node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

  // What runs for inputs of these types now (on the GPU where that can), or why they run node
  // by node.
  using Compiled = Programs::Result;
  Compiled compiled(std::span<const TensorType> inputs) const;
  // The same for these values, with all that it is run with: see Packing for what is added
  // where padding is skipped.
  struct Ready {
    Compiled compiled;
    std::vector<Tensor> inputs;
  };
  Ready ready(std::span<const Tensor> inputs) const;
  // Why the last call that might have had padding computed it although it was to be skipped; empty
  // where it did not.
  std::string padding_kept() const;
  // Why the GPU is not used now; empty while it is, or where there is none.
  std::string gpu_failure() const;
  // Calls so far that were for the GPU and ran on the CPU.
  FallbackCounts fallbacks() const;

  // All that is compiled now, for the GPU where it runs there, and what its own plan brought.
  Plan plan(PlanKey key) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
