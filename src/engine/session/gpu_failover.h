// Failover: when a session's GPU is lost, all its calls run on the CPU until the GPU returns. (A
// fallback is one call that moves to the CPU: compute/fallback/batched_run.h; Session notes both.)
// The policy is device::HealthPolicy, run by the health state machine of device/health/health.h: a
// call that fails on the GPU counts as device loss, and Gpu::revive() is the canary. Session is the
// only user here; calculations move to the CPU by compute/compute.cc.
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
class GpuFailover {
 public:
  // The programs compiled between two failures of the device.
  struct Generation {
    Programs programs;
  };

  // `gpu` null: always the CPU. `veto` returns why the GPU must not be used now, or nothing.
  GpuFailover(std::unique_ptr<Gpu> gpu, const device::HealthPolicy& policy,
              std::function<std::string()> veto);

  Gpu* gpu() const noexcept { return gpu_.get(); }

  // The generation for a call with inputs of these types; null: use the CPU. When a retry is due,
  // one caller tries to revive a lost GPU.
  std::shared_ptr<Generation> acquire(std::span<const TensorType> types);

  // The result of a call in that generation. Inputs whose calls end two generations, without a
  // success in between, run on the CPU from then on.
  void succeeded(std::span<const TensorType> types);
  void failed(const Generation& generation, std::span<const TensorType> types,
              const std::string& why);
  // A transient failure. The third in a row counts as a failure.
  void failed_transiently(const Generation& generation, std::span<const TensorType> types,
                          const std::string& why);

  // The current generation, and why the GPU is not used; empty while it is.
  std::shared_ptr<Generation> current() const;
  std::string why_not() const;
  bool vetoed() const { return gpu_ && veto_ && !veto_().empty(); }

 private:
  struct Blamed {
    InputTypes types;
    int times;
  };

  std::shared_ptr<Generation> revive();
  std::vector<Blamed>::iterator blamed(std::span<const TensorType> types) REQUIRES(mutex_);

  const std::unique_ptr<Gpu> gpu_;
  const device::HealthPolicy policy_;
  const std::function<std::string()> veto_;
  mutable Mutex mutex_;
  device::Health health_ GUARDED_BY(mutex_);
  bool reviving_ GUARDED_BY(mutex_) = false;                   // by one caller
  bool ended_ GUARDED_BY(mutex_) = false;                      // permanently
  int transient_failures_ GUARDED_BY(mutex_) = 0;              // in a row
  std::shared_ptr<Generation> generation_ GUARDED_BY(mutex_);  // null while it is lost
  std::vector<Blamed> blamed_ GUARDED_BY(mutex_);              // for the end of a generation
};

}  // namespace sluice::engine
