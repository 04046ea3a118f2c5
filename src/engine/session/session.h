// A model, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/fallback/fallback_counts.h"
#include "compute/workers.h"
#include "device/health/health.h"
#include "engine/exec/gpu.h"
#include "engine/exec/program.h"
#include "engine/ops/op.h"
#include "engine/plan/plan.h"
#include "engine/session/programs.h"

namespace sluice::engine {

using compute::Fallback;
using compute::FallbackCounts;

struct SessionOptions {
  // Maximum bytes of host memory in use at once; 0: unlimited. Packed weights, arenas (cached ones
  // too), values and results count for as long as they are held. The model's own weights do not
  // count, nor does GPU memory, which the context's allocator limits.
  std::size_t memory = 0;
  // Maximum nodes of a call that is interpreted; those of a loop body count each time.
  std::int64_t nodes = 1'000'000'000;
  // False: interprets the graph node by node with the reference operators.
  bool compile = true;
  // The GPU to run on; none: the CPU.
  std::shared_ptr<cuda::Context> gpu{};
  DType precision = DType::f32;  // of f32 nodes on the GPU: f32, f16 or bf16
  // Maximum loss of f16 or bf16, relative to the largest value of an output: nodes that would lose
  // more stay in f32, or all of them if that is not enough. Measured when a graph is first
  // compiled, with its first inputs; see narrowing.h. Infinite: nothing is measured. Default: 0.01,
  // and 0.08 for bf16.
  std::optional<double> max_loss{};
  // Encoders skip padding: where the attention mask is 0, outputs are 0 instead of meaningless
  // values. Models for which this cannot be proved to be the only difference run with their
  // padding; see padding_kept().
  bool skip_padding = false;
  // Returns why the GPU must not be used now; empty when it may. It must be fast.
  std::function<std::string()> veto{};
  device::HealthPolicy gpu_return{};  // when a GPU that failed is tried again
};

// Safe to run from several threads at once. The graph is compiled once for each set of input
// shapes; one with data-dependent shapes is interpreted.
//
// Out of memory: cached memory is released, then the batch is halved if its items are provably
// independent (batch_axis.h), then a call for the GPU runs on the CPU. So does a call that the GPU
// failed transiently. Each is counted and logged, see fallbacks(). When the GPU fails, its calls
// and later ones run on the CPU until it computes again, which is tried after a second, then two,
// four, up to gpu_return's longest. A fault that ends CUDA for the process is permanent.
class Session {
 public:
  // Throws unavailable, naming operator and node, if the graph has an unsupported operator.
  Session(Graph graph, compute::Workers& workers, SessionOptions options = {});
  // Does not compile again what the plan holds. The caller checks the plan's key.
  Session(Plan plan, compute::Workers& workers, SessionOptions options = {});
  // Uses another implementation of Gpu, for tests.
  Session(Graph graph, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
          SessionOptions options = {});
  Session(Plan plan, compute::Workers& workers, std::unique_ptr<Gpu> gpu,
          SessionOptions options = {});
  ~Session();

  const Graph& graph() const noexcept;

  // Inputs are in the order of graph().inputs, results in that of graph().outputs. Errors name the
  // node.
  std::vector<Datum> run(std::span<const Datum> inputs) const;

  // The program for inputs of these types (on the GPU if possible), or why they are interpreted.
  using Compiled = Programs::Result;
  Compiled compiled(std::span<const TensorType> inputs) const;
  // The same for these values, with all that it is run with: see VarlenBatch for what is added
  // where padding is skipped.
  struct Ready {
    Compiled compiled;
    std::vector<Tensor> inputs;
  };
  Ready ready(std::span<const Tensor> inputs) const;
  // Why the last call that might have had padding did not skip it although that was enabled; empty
  // if it did.
  std::string padding_kept() const;
  // Why the GPU is not used now; empty while it is used, or if there is none.
  std::string gpu_failure() const;
  // Calls so far that fell back from the GPU to the CPU.
  FallbackCounts fallbacks() const;

  // Everything compiled so far for the session's device, including what its own plan held.
  Plan plan(PlanKey key) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
