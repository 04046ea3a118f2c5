// A graph for one set of input shapes, compiled.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/exec/schedule.h"

namespace sluice::engine {

// When a step began and how long it took, and what it ran on.
struct StepTime {
  enum class Lane { cpu, stream, copies };

  const Node* node;  // null: a copy of the graph's inputs or outputs
  std::string_view kernel;
  double begin_us, us;
  Lane lane = Lane::cpu;
};

// Safe to run from several threads at once.
class Program {
 public:
  virtual ~Program() = default;

  virtual const Graph& graph() const noexcept = 0;
  virtual const Schedule& schedule() const noexcept = 0;

  // Inputs as the graph says. With `times`, one entry for each step is added to it, and
  // for copies to the device and back.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs,
                                  std::vector<StepTime>* times = nullptr) const = 0;

  // Gives memory that is kept for later runs back; bytes.
  virtual std::size_t trim() const noexcept { return 0; }
};

}  // namespace sluice::engine
