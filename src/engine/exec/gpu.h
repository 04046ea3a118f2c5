// The interface between a session and its GPU: implemented for CUDA, and by a fake for tests.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/graph/graph.h"

namespace sluice::engine {

class Program;
namespace cpu {
class Context;
}
namespace cuda {
class Context;
}

// Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;

  // `graph` is specialized and optimized. Throws unavailable or invalid_argument if it can only
  // run on the CPU. Compiling and running throw exhausted when memory is insufficient, without
  // side effects, and internal when the device failed.
  virtual std::shared_ptr<const Program> compile(Graph graph,
                                                 const std::shared_ptr<cpu::Context>& host) = 0;

  // Recovers from a failure: runs a canary on the device and recreates what programs share.
  // Programs compiled before are not run again. Throws what is still wrong; unavailable means
  // permanently, for this process.
  virtual void revive() = 0;

  // The algorithms chosen by measurement; see cuda::Context.
  using Choices = std::map<std::string, std::string>;
  virtual Choices choices() const { return {}; }
  virtual void restore_choices(Choices) {}

  // The clock that times its failures and recoveries.
  virtual Instant now() const { return Steady::now(); }
};

// Throws unavailable in a build without CUDA.
std::unique_ptr<Gpu> make_cuda_gpu(std::shared_ptr<cuda::Context> context);

}  // namespace sluice::engine
