// The GPU that a session's graphs run on, as the session sees it: CUDA's, or one that a test
// makes up.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/exec/program.h"

namespace sluice::engine {

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

  // `graph` is specialized and optimized. Throws unavailable and invalid_argument where it can
  // only run on the CPU. This and a run of what it made throw exhausted where there is no memory
  // for it, with nothing harmed, and internal when the device failed.
  virtual std::shared_ptr<const Program> compile(Graph graph,
                                                 const std::shared_ptr<cpu::Context>& host) = 0;

  // After a failure: proves that the device computes, and makes anew what programs share.
  // Programs from before are not run again. Throws what is still wrong; unavailable: for good,
  // as far as this process goes.
  virtual void revive() = 0;

  // What measuring found; see cuda::Context.
  using Choices = std::map<std::string, std::string>;
  virtual Choices choices() const { return {}; }
  virtual void bring(Choices) {}

  // Its failures and returns are told by this clock.
  virtual Instant now() const { return Steady::now(); }
};

// Throws unavailable in a build without CUDA.
std::unique_ptr<Gpu> make_cuda_gpu(std::shared_ptr<cuda::Context> context);

}  // namespace sluice::engine
