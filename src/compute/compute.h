// Runs operations on the faster processor, and finishes them on the CPU when the GPU fails.
//
//   Compute compute({});
//   compute.run(operation, call).choice.reason;   // why this processor
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/accelerator.h"
#include "compute/choose/choose.h"
#include "compute/workers.h"

namespace sluice::compute {

struct ComputeOptions {
  int threads = 0;                                  // 0: all this process may use
  std::shared_ptr<Accelerator> accelerator{};       // none: everything runs on the CPU
  std::string no_accelerator = "no GPU was found";  // the reason that is given then
  // Returns why the GPU must not be used now; empty when it may.
  std::function<std::string()> veto{};
  std::filesystem::path costs{};  // file of measured costs; empty: forgotten at the end
};

struct Outcome {
  Choice choice;
  std::size_t items_on_cpu = 0, items_on_gpu = 0;
  std::size_t batches = 1;  // that the call was split into on the GPU, for lack of memory
  double seconds = 0;
  std::string fallback;  // why items that were for the GPU ran on the CPU; empty when none did
};

struct ComputeStats {
  std::uint64_t cpu_calls = 0, gpu_calls = 0, faults = 0, exhausted = 0, fallbacks = 0;
};

// Thread-safe; calls may come from several threads and share the processors.
class Compute {
 public:
  explicit Compute(ComputeOptions options);
  ~Compute();  // writes the costs
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;

  // Returns when all outputs are written. Out of GPU memory: caches are trimmed, then the
  // batch is halved (batched_run.h), then it runs on the CPU. A GPU that fails: what is not done
  // yet runs on the CPU, and so do later calls until the GPU is healthy again. Throws what the CPU
  // function throws; `DevicePreference::gpu` skips the choice, not these fallbacks.
  Outcome run(const Operation& operation, const Call& call,
              DevicePreference preference = DevicePreference::automatic);

  // Returns what run() would choose.
  Choice explain(const Operation& operation, const Call& call,
                 DevicePreference preference = DevicePreference::automatic);

  // Throws unavailable for DevicePreference::gpu without a GPU: a caller that names the GPU must
  // not get the CPU silently.
  void require_device(DevicePreference preference) const;

  Workers& workers() noexcept;
  ComputeStats stats() const;
  std::string accelerator_name() const;               // empty when there is none
  std::vector<memory::PoolStatistics> pools() const;  // the accelerator's

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs on the CPU, and on the first usable GPU of this machine when there is one.
// `device` is "auto", "cpu" or "gpu" (which throws unavailable without one).
std::unique_ptr<Compute> make_compute(std::string_view device, std::filesystem::path costs = {},
                                      const memory::MemoryConfig& pools = {});

}  // namespace sluice::compute
