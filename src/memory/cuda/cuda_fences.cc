// Points in CUDA streams as events. An event is reused once it is not needed.
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "memory/cuda/cuda.h"

namespace sluice::memory {

namespace {

cudaStream_t stream_of(StreamId id) { return reinterpret_cast<cudaStream_t>(id); }
cudaEvent_t event_of(Fence fence) { return reinterpret_cast<cudaEvent_t>(fence); }

class CudaFences final : public Fences {
 public:
  explicit CudaFences(int device) : device_{device} {}
  ~CudaFences() override {
    for (const auto event : spare_) device::check_in_destructor(cudaEventDestroy(event));
  }

  Fence record(StreamId stream) override {
    const auto event = take();
    device::check(cudaEventRecord(event, stream_of(stream)));
    return reinterpret_cast<Fence>(event);
  }

  bool passed(Fence fence) override {
    const auto status = cudaEventQuery(event_of(fence));
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    device::check(status);
    return true;
  }

  void hold(StreamId stream, Fence fence) override {
    device::check(cudaStreamWaitEvent(stream_of(stream), event_of(fence)));
  }

  void wait(Fence fence) override { device::check(cudaEventSynchronize(event_of(fence))); }

  void release(Fence fence) noexcept override { spare_.push_back(event_of(fence)); }

 private:
  cudaEvent_t take() {
    if (!spare_.empty()) {
      const auto event = spare_.back();
      spare_.pop_back();
      return event;
    }
    const device::DeviceScope on(device_);
    cudaEvent_t event = nullptr;
    device::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    spare_.reserve(++made_);  // release() must not throw
    return event;
  }

  const device::DeviceId device_;
  std::size_t made_ = 0;
  std::vector<cudaEvent_t> spare_;
};

}  // namespace

std::unique_ptr<Fences> make_cuda_fences(int device) {
  return std::make_unique<CudaFences>(device);
}

}  // namespace sluice::memory
