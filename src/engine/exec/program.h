// A graph compiled for one set of input shapes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exec/schedule.h"

namespace sluice::engine {

// Start, duration and location of one step: a row of a profile.
struct StepTime {
  enum class Track { cpu, stream, copies };

  const Node* node;  // null for the copies of the graph's inputs and outputs
  std::string_view kernel;
  double begin_us, us;
  Track track = Track::cpu;
};

// The same for a profile that outlives the program.
struct KernelTime {
  std::string node, kernel;
  double us;
};

// Safe to run from several threads at once.
class Program {
 public:
  virtual ~Program() = default;

  virtual const Graph& graph() const noexcept = 0;
  virtual const Schedule& schedule() const noexcept = 0;

  // `inputs` are in the order of the graph's. With `times`, one entry is appended for each step
  // and for the copies to the device and back.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs,
                                  std::vector<StepTime>* times = nullptr) const = 0;

  // Releases memory that is cached for later runs; returns the bytes released.
  virtual std::size_t trim() const noexcept { return 0; }
};

}  // namespace sluice::engine
