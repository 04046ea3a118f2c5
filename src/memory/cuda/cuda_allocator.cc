// The driver's own allocators behind our interface.
#include <algorithm>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "memory/cuda/cuda.h"

namespace sluice::memory {

namespace {

// CUDA gives null for nothing; our interface gives a distinct address.
std::size_t at_least_one(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

class CudaAllocator final : public Allocator {
 public:
  explicit CudaAllocator(int device) : device_{device} {}
  void* allocate(std::size_t bytes) override {
    const device::DeviceScope on(device_);
    void* made = nullptr;
    device::check(cudaMalloc(&made, at_least_one(bytes)));
    return made;
  }
  void deallocate(void* pointer, std::size_t) noexcept override {
    device::check_in_destructor(cudaFree(pointer));
  }

 private:
  const device::DeviceId device_;
};

class CudaAsyncAllocator final : public Allocator {
 public:
  CudaAsyncAllocator(int device, cudaStream_t stream) : stream_(stream) {
    cudaMemPoolProps what{};
    what.allocType = cudaMemAllocationTypePinned;
    what.location = {cudaMemLocationTypeDevice, device};
    device::check(cudaMemPoolCreate(&pool_, &what));
    std::uint64_t keep = static_cast<std::uint64_t>(-1);
    device::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  }
  ~CudaAsyncAllocator() override {
    device::check_in_destructor(cudaStreamSynchronize(stream_));
    device::check_in_destructor(cudaMemPoolDestroy(pool_));
  }
  CudaAsyncAllocator(const CudaAsyncAllocator&) = delete;
  CudaAsyncAllocator& operator=(const CudaAsyncAllocator&) = delete;

  void* allocate(std::size_t bytes) override {
    void* made = nullptr;
    device::check(cudaMallocFromPoolAsync(&made, at_least_one(bytes), pool_, stream_));
    return made;
  }
  void deallocate(void* pointer, std::size_t) noexcept override {
    device::check_in_destructor(cudaFreeAsync(pointer, stream_));
  }
  std::size_t trim() noexcept override {
    const auto before = held();
    device::check_in_destructor(cudaStreamSynchronize(stream_));
    device::check_in_destructor(cudaMemPoolTrimTo(pool_, 0));
    return before - std::min(before, held());
  }

 private:
  std::size_t held() const noexcept {
    std::uint64_t bytes = 0;
    device::check_in_destructor(
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

  const cudaStream_t stream_;
  cudaMemPool_t pool_ = nullptr;
};

class PinnedAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* made = nullptr;
    device::check(cudaHostAlloc(&made, at_least_one(bytes), cudaHostAllocPortable));
    return made;
  }
  void deallocate(void* pointer, std::size_t) noexcept override {
    device::check_in_destructor(cudaFreeHost(pointer));
  }
};

}  // namespace

std::unique_ptr<Allocator> make_cuda_allocator(int device) {
  return std::make_unique<CudaAllocator>(device);
}

std::unique_ptr<Allocator> make_cuda_async_allocator(int device, CUstream_st* stream) {
  return std::make_unique<CudaAsyncAllocator>(device, stream);
}

std::unique_ptr<Allocator> make_pinned_allocator() { return std::make_unique<PinnedAllocator>(); }

}  // namespace sluice::memory
