// Whose turn it is, a session's GPU's or the CPU's: by the rule of device/health/health.h, for
// which a call that fails on the GPU is a loss and Gpu::revive() the canary.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/health/health.h"
#include "engine/exec/gpu.h"
#include "engine/session/programs.h"

namespace sluice::engine {

// Thread-safe.
class GpuTurn {
 public:
  // From one failure to the next.
  struct Life {
    Programs programs;
  };

  // `gpu` null: always the CPU's. `veto`: why it must not be used now, or nothing.
  GpuTurn(std::unique_ptr<Gpu> gpu, const device::HealthPolicy& policy,
          std::function<std::string()> veto);

  Gpu* gpu() const noexcept { return gpu_.get(); }

  // For a call with inputs of these types; null: the CPU's turn. When it is time, one caller
  // tries to bring a GPU that failed back.
  std::shared_ptr<Life> life(std::span<const TensorType> types);

  // What became of a call in that life. Inputs whose calls end two lives, with none that worked
  // between, are the CPU's from then on: what they run must be what fails.
  void worked(std::span<const TensorType> types);
  void failed(const Life& life, std::span<const TensorType> types, const std::string& why);
  // It failed for the moment. The third time in a row, with none that worked between, is a failure.
  void stumbled(const Life& life, std::span<const TensorType> types, const std::string& why);

  // What is compiled for it now, and why it is not used; empty while it is.
  std::shared_ptr<Life> present() const;
  std::string why_not() const;
  bool vetoed() const { return gpu_ && veto_ && !veto_().empty(); }

 private:
  struct Blamed {
    InputTypes types;
    int times;
  };

  std::shared_ptr<Life> revive();
  std::vector<Blamed>::iterator blamed(std::span<const TensorType> types) REQUIRES(mutex_);

  const std::unique_ptr<Gpu> gpu_;
  const device::HealthPolicy policy_;
  const std::function<std::string()> veto_;
  mutable Mutex mutex_;
  device::Health health_ GUARDED_BY(mutex_);
  bool reviving_ GUARDED_BY(mutex_) = false;       // one caller is at it
  bool ended_ GUARDED_BY(mutex_) = false;          // for good
  int stumbles_ GUARDED_BY(mutex_) = 0;            // in a row
  std::shared_ptr<Life> life_ GUARDED_BY(mutex_);  // null while it is lost
  std::vector<Blamed> blamed_ GUARDED_BY(mutex_);  // for the end of a life
};

}  // namespace sluice::engine
