// Arrays are copied to the GPU, the operation's kernels run, results are copied back: on a
// stream of their own for each call that runs at the same time, from pools of memory that are
// made as the settings say.
#include <cuda_runtime_api.h>

#include <atomic>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "compute/accelerator.h"
#include "compute/copy.h"
#include "compute/device_pools.h"
#include "compute/launch_context.h"
#include "device/cuda/check.h"
#include "device/gpu_code.h"
#include "device/sampler/gpu_activity.h"

namespace sluice::compute {
namespace {

class CudaAccelerator final : public Accelerator {
 public:
  explicit CudaAccelerator(const CudaOptions& options)
      : device_{options.device},
        scope_check_(check_device(options.device)),
        pools_(make_device_pools(options.device, options.pools, kAcceleratorPools, options.memory)),
        workspace_(pools_->get("workspace")),
        persistent_(pools_->get("persistent")) {}

  std::string name() const override { return name_; }
  std::string why_not() override {
    return failed_ ? "CUDA failed in this process and cannot be used in it again" : "";
  }
  Taken run(const Operation& operation, const Call& call) override;
  std::size_t trim() noexcept override { return pools_->trim(); }
  std::vector<memory::PoolStatistics> pools() const override {
    std::vector<memory::PoolStatistics> all;
    for (auto& report : pools_->report()) all.push_back(std::move(report.pool));
    return all;
  }
  std::shared_ptr<void> keep(const void* data, std::size_t bytes) override {
    const device::DeviceScope scope(device_);
    auto buffer = std::make_shared<memory::Buffer>(persistent_, bytes);
    if (data != nullptr) {
      device::check(cudaMemcpy(buffer->data(), data, bytes, cudaMemcpyHostToDevice));
      // The copy may still be on its way, and the streams that read it would not wait for it.
      device::check(cudaStreamSynchronize(nullptr));
    }
    return {buffer, buffer->data()};
  }
  void pin(void* data, std::size_t bytes) noexcept override {
    if (cudaHostRegister(data, bytes, cudaHostRegisterPortable) != cudaSuccess)
      (void)cudaGetLastError();  // copies are slower, no more
  }
  void unpin(void* data) noexcept override {
    if (cudaHostUnregister(data) != cudaSuccess) (void)cudaGetLastError();
  }

 private:
  class Borrowed;
  struct Staged;

  bool check_device(int device) {
    int count = 0;
    device::check(cudaGetDeviceCount(&count));
    if (device < 0 || device >= count)
      throw Error(Code::unavailable, "CUDA has no device " + std::to_string(device));
    cudaDeviceProp properties{};
    device::check(cudaGetDeviceProperties(&properties, device));
    device::require_code_for(10 * properties.major + properties.minor);
    name_ = properties.name;
    return true;
  }
  Taken run_on(const device::Stream& stream, const Operation& operation, const Call& call);

  std::string name_;
  const device::DeviceId device_;
  const bool scope_check_;
  const std::unique_ptr<memory::Pools> pools_;
  memory::Allocator& workspace_;
  memory::Allocator& persistent_;
  device::GpuActivity& activity_ = device::GpuActivity::of(device_.value);
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  std::vector<std::unique_ptr<device::Stream>> idle_ GUARDED_BY(mutex_);
};

// A stream until the end of the scope; a failed one is not used again.
class CudaAccelerator::Borrowed {
 public:
  explicit Borrowed(CudaAccelerator& from) : from_(from) {
    {
      const Lock lock(from.mutex_);
      if (!from.idle_.empty()) {
        stream_ = std::move(from.idle_.back());
        from.idle_.pop_back();
      }
    }
    if (!stream_) stream_ = std::make_unique<device::Stream>(from.device_);
  }
  ~Borrowed() {
    if (from_.failed_) return;
    const Lock lock(from_.mutex_);
    from_.idle_.push_back(std::move(stream_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  const device::Stream& get() const { return *stream_; }

 private:
  CudaAccelerator& from_;
  std::unique_ptr<device::Stream> stream_;
};

// A call whose arrays are all on the device; memory for those that were not.
struct CudaAccelerator::Staged {
  Staged(memory::Allocator& from, const Call& host) : call(host) {
    place(from, call.in);
    place(from, call.out);
  }
  void place(memory::Allocator& from, std::vector<Operand>& operands) {
    for (Operand& operand : operands) {
      if (operand.side == Side::device) continue;
      buffers.emplace_back(from, operand.bytes(call.items));
      operand.data = buffers.back().data();
      operand.side = Side::device;
    }
  }
  Call call;
  std::vector<memory::Buffer> buffers;
};

// Memory goes back to the pool only when the stream is done with it, also on the way of an
// error.
struct Quiet {
  cudaStream_t stream;
  ~Quiet() { (void)cudaStreamSynchronize(stream); }
};

// A point of a stream on the device's own clock.
class Event {
 public:
  Event() { device::check(cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const device::Stream& stream) const {
    device::check(cudaEventRecord(event_, stream.get()));
  }
  // Both must have passed.
  friend double seconds_until(const Event& begin, const Event& end) {
    float ms = 0;
    device::check(cudaEventElapsedTime(&ms, begin.event_, end.event_));
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

void copy(const std::vector<Operand>& to, const std::vector<Operand>& from, std::size_t items,
          cudaMemcpyKind kind, const device::Stream& stream) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Operand& host = kind == cudaMemcpyHostToDevice ? from[i] : to[i];
    const std::size_t bytes = host.bytes(items);
    if (host.side == Side::device || bytes == 0) continue;
    device::check(cudaMemcpyAsync(to[i].data, from[i].data, bytes, kind, stream.get()));
  }
}

Taken CudaAccelerator::run_on(const device::Stream& stream, const Operation& operation,
                              const Call& call) {
  const Staged staged(workspace_, call);
  LaunchContext context(stream, workspace_);
  const Quiet quiet{stream.get()};
  const Instant start = Steady::now();
  copy(staged.call.in, call.in, call.items, cudaMemcpyHostToDevice, stream);
  stream.wait();
  const Instant there = Steady::now();
  const Event begin, end;
  begin.record(stream);
  operation.gpu(staged.call, context);
  end.record(stream);
  stream.wait();
  const Instant computed = Steady::now();
  copy(call.out, staged.call.out, call.items, cudaMemcpyDeviceToHost, stream);
  stream.wait();
  return {seconds_between(start, there), seconds_until(begin, end),
          seconds_between(computed, Steady::now())};
}

Taken CudaAccelerator::run(const Operation& operation, const Call& call) {
  const device::DeviceScope scope(device_);
  const device::GpuActivity::Working working(activity_);
  try {
    const Borrowed stream(*this);
    return run_on(stream.get(), operation, call);
  } catch (const Error& error) {
    failed_ = !device::survivable(static_cast<cudaError_t>(device::device_state()));
    const device::GpuStatus status = device::gpu_status_of(error);
    if (failed_ || status == device::GpuStatus::lost)
      throw DeviceFault(std::string(error.reason()));
    if (status == device::GpuStatus::out_of_memory) throw;
    throw DeviceRefusal(std::string(error.reason()));
  }
}

}  // namespace

std::unique_ptr<Accelerator> make_cuda_accelerator(const CudaOptions& options) {
  return std::make_unique<CudaAccelerator>(options);
}

GpuFunction copy_gpu_function() {
  return [](const Call& call, LaunchContext& context) {
    device::check(cudaMemcpyAsync(call.out[0].data, call.in[0].data, call.items,
                                  cudaMemcpyDeviceToDevice, context.stream().get()));
  };
}

}  // namespace sluice::compute
