#include "engine/exec/gpu.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/health/canary.h"
#include "engine/exec/cuda/cuda_program.h"

namespace sluice::engine {
namespace {

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(std::shared_ptr<cuda::Context> context) : context_(std::move(context)) {}

  std::shared_ptr<const Program> compile(Graph graph,
                                         const std::shared_ptr<cpu::Context>& host) override {
    return make_cuda_program(std::move(graph), context(), host);
  }

  void revive() override {
    const std::shared_ptr<cuda::Context> before = context();
    run_canary(before->options.device);
    std::shared_ptr<cuda::Context> fresh = make_cuda_context(before->options);
    fresh->restore_choices(choices());
    const Lock lock(mutex_);
    context_.swap(fresh);  // the old context is destroyed after the lock is released
  }

  Choices choices() const override {
    const std::shared_ptr<cuda::Context> from = context();
    const Lock lock(from->making);
    return from->choices();
  }
  void restore_choices(Choices choices) override {
    const std::shared_ptr<cuda::Context> to = context();
    const Lock lock(to->making);
    to->restore_choices(std::move(choices));
  }

 private:
  std::shared_ptr<cuda::Context> context() const {
    const Lock lock(mutex_);
    return context_;
  }

  // A context with a sticky error returns it from every call.
  static void run_canary(int device) {
    std::string why_not;
    const auto canary = device::compute_canary(why_not, device);
    if (canary && canary->passed) return;
    const std::string why = canary ? canary->note : why_not;
    const auto status = static_cast<cudaError_t>(device::device_state(device::DeviceId{device}));
    if (!device::survivable(status))
      throw Error(Code::unavailable,
                  "CUDA failed in this process and cannot be used in it again (" +
                      std::string(cudaGetErrorName(status)) + "); start the program again");
    throw Error(canary ? Code::internal : Code::exhausted, why);
  }

  mutable Mutex mutex_;
  std::shared_ptr<cuda::Context> context_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Gpu> make_cuda_gpu(std::shared_ptr<cuda::Context> context) {
  return std::make_unique<CudaGpu>(std::move(context));
}

}  // namespace sluice::engine
