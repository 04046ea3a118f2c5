// Times a compiled model on one backend and in one precision.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/model/model_flags.h"
#include "compute/workers.h"
#include "engine/graph/graph.h"
#include "engine/plan/config.h"
#include "engine/shapes/specialize.h"

namespace sluice::cli {

struct Timing {
  std::size_t runs = 0;
  double p50_s = 0, p99_s = 0;
  double flops = 0;        // of one run; 0 where shapes are not known before
  std::size_t memory = 0;  // bytes of weights and of what lies between inputs and outputs
  std::string note{};      // "node by node: ..."
  PrecisionResult precision{};
  double device_s = 0;  // that the GPU took to start
  double load_s = 0;    // then until it was ready to run: read, and compiled for these inputs
  bool from_plan = false;
};

// Inputs and outputs are in the host's memory, so that copies to a GPU and back are part of a
// run; `resident`: on the GPU, and what is timed is its work alone.
class TimedModel {
 public:
  virtual ~TimedModel() = default;

  virtual const engine::Graph& graph() const noexcept = 0;
  virtual const std::string& refused() const noexcept = 0;  // why a plan was not used

  // Compiles for these inputs, warms up and runs for about `seconds`, at least ten times.
  virtual Timing time(std::span<const Tensor> inputs, double seconds) = 0;

  // Stores the compiled plan for the next start.
  virtual void keep() const = 0;
};

// `model` as open_model() takes it. Throws unavailable where this build or machine lacks the
// device or the device the precision. `workers` outlives the result.
std::unique_ptr<TimedModel> timed_model(const std::string& model, const DeviceFlags& on,
                                        const engine::PlanCache& plans, compute::Workers& workers,
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
