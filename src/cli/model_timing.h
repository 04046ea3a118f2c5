// How long a compiled model takes, on one backend and in one precision.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "engine/graph.h"
#include "engine/specialize.h"

namespace sluice::cli {

struct Timing {
  std::size_t runs = 0;
  double p50_s = 0, p99_s = 0;
  double flops = 0;        // of one run; 0 where shapes are not known before
  std::size_t memory = 0;  // bytes of weights and of what lies between inputs and outputs
  std::string note{};      // "node by node: ..."
};

// Inputs and outputs are in the host's memory, so that copies to a GPU and back are part of a
// run; `resident`: on the GPU, and what is timed is its work alone.
class TimedModel {
 public:
  virtual ~TimedModel() = default;

  // Compiles for these inputs, warms up and runs for about `seconds`, at least ten times.
  virtual Timing time(std::span<const Tensor> inputs, double seconds) = 0;
};

// Throws unavailable where this build or machine lacks the backend ("cpu", "cuda") or the
// backend the precision. `graph` and `workers` outlive the result.
std::unique_ptr<TimedModel> timed_model(const std::string& backend, const std::string& precision,
                                        const engine::Graph& graph, compute::Workers& workers,
                                        const std::vector<std::string>& library_dirs,
                                        bool resident = false);

// The device's name and what it computes at most in a second; 0 where nobody knows.
struct DevicePeak {
  std::string name;
  double flops = 0;
};
DevicePeak device_peak(const std::string& backend, const std::string& precision,
                       const std::vector<std::string>& library_dirs);

}  // namespace sluice::cli
