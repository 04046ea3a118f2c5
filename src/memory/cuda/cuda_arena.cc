// Arenas on a GPU and in pinned host memory.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "memory/cuda/cuda.h"
#include "memory/cuda/cuda_driver.h"

namespace sluice::memory {

namespace {

// One mapping costs some tens of microseconds whatever its size: 2 MiB, the least a card
// maps, would make large pools slow to grow; much larger ones waste memory at the edges.
constexpr std::size_t kCheapGranule = 16 << 20;

CUmemAllocationProp memory_on(int device) {
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return what;
}

void require_mapping(const CudaDriver& driver, int device) {
  int can = 0;
  driver.check(
      driver.attribute(&can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device),
      "asking whether the GPU maps memory");
  if (can == 0)
    throw Error(Code::unavailable,
                "this GPU cannot map memory behind addresses; a fixed arena can");
}

// One physical allocation per granule: the driver maps and unmaps whole ones only.
class CudaArena final : public Arena {
 public:
  CudaArena(int device, std::size_t addresses, std::size_t granule)
      : device_(device), driver_(start(device)) {
    require_mapping(driver_, device);
    const auto what = memory_on(device);
    std::size_t recommended = 0;
    driver_.check(driver_.granularity(&recommended, &what, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                  "asking for the GPU's granule");
    granule_ = recommended;
    while (granule_ < std::max(granule, granule == 0 ? kCheapGranule : recommended)) granule_ *= 2;
    addresses_ = round_up(addresses, granule_);
    handles_.resize(addresses_ / granule_);
    driver_.check(driver_.reserve(&base_, addresses_, granule_, 0, 0), "reserving GPU addresses");
  }

  ~CudaArena() override {
    settle();
    for (std::size_t i = 0; i < handles_.size(); ++i)
      if (handles_[i] != 0) unmap(i);
    driver_.report(driver_.unreserve(base_, addresses_), "giving GPU addresses back");
  }

  std::byte* base() const noexcept override { return reinterpret_cast<std::byte*>(base_); }
  std::size_t addresses() const noexcept override { return addresses_; }
  std::size_t granule() const noexcept override { return granule_; }

  std::size_t available() const noexcept override {
    std::size_t free = 0, total = 0;
    try {
      const device::DeviceScope on({device_});
      device::check(cudaMemGetInfo(&free, &total));
    } catch (const Error&) {
      return 0;  // a failed query means that none is there
    }
    return free / granule_ * granule_;
  }

  void commit(std::size_t offset, std::size_t bytes) override {
    const std::size_t first = offset / granule_, end = (offset + bytes) / granule_;
    std::size_t done = first;
    try {
      for (; done < end; ++done) map(done);
      CUmemAccessDesc both{};
      both.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
      both.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      driver_.check(driver_.set_access(base_ + offset, bytes, &both, 1), "opening GPU memory");
    } catch (...) {
      while (done > first) unmap(--done);
      throw;
    }
  }

  void decommit(std::size_t offset, std::size_t bytes) noexcept override {
    settle();
    for (std::size_t i = offset / granule_; i < (offset + bytes) / granule_; ++i) unmap(i);
  }

 private:
  // The runtime makes the context that the driver's functions need.
  static const CudaDriver& start(int device) {
    device::check(cudaSetDevice(device));
    device::check(cudaFree(nullptr));
    return CudaDriver::get();
  }

  // Work on the memory may still be under way, and the driver does not wait for it
  // before it unmaps.
  void settle() const noexcept {
    try {
      const device::DeviceScope on({device_});
      device::check(cudaDeviceSynchronize());
    } catch (const Error& e) {
      log::error("{}", e.what());
    }
  }

  void map(std::size_t i) {
    const auto what = memory_on(device_);
    driver_.check(driver_.create(&handles_[i], granule_, &what, 0), "taking GPU memory");
    const auto mapped = driver_.map(base_ + i * granule_, granule_, 0, handles_[i], 0);
    if (mapped == CUDA_SUCCESS) return;
    driver_.report(driver_.release(handles_[i]), "giving GPU memory back");
    handles_[i] = 0;
    driver_.check(mapped, "mapping GPU memory");
  }

  void unmap(std::size_t i) noexcept {
    driver_.report(driver_.unmap(base_ + i * granule_, granule_), "unmapping GPU memory");
    driver_.report(driver_.release(handles_[i]), "giving GPU memory back");
    handles_[i] = 0;
  }

  const int device_;
  const CudaDriver& driver_;
  std::size_t granule_ = 0, addresses_ = 0;
  CUdeviceptr base_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;  // one per granule; 0: no memory there
};

class CudaFixedArena final : public Arena {
 public:
  CudaFixedArena(int device, std::size_t bytes) : bytes_(round_up(bytes, kGranule)) {
    const device::DeviceScope on({device});
    device::check(cudaMalloc(&base_, bytes_));
  }
  ~CudaFixedArena() override { device::check_in_destructor(cudaFree(base_)); }
  CudaFixedArena(const CudaFixedArena&) = delete;
  CudaFixedArena& operator=(const CudaFixedArena&) = delete;

  std::byte* base() const noexcept override { return static_cast<std::byte*>(base_); }
  std::size_t addresses() const noexcept override { return bytes_; }
  std::size_t granule() const noexcept override { return kGranule; }
  void commit(std::size_t, std::size_t) override {}
  void decommit(std::size_t, std::size_t) noexcept override {}

 private:
  static constexpr std::size_t kGranule = 2 << 20;
  std::size_t bytes_;
  void* base_ = nullptr;
};

class PinnedArena final : public Arena {
 public:
  PinnedArena(std::size_t addresses, std::size_t granule)
      : host_(addresses, granule), pinned_(host_.addresses() / host_.granule()) {}
  ~PinnedArena() override {
    for (std::size_t i = 0; i < pinned_.size(); ++i)
      if (pinned_[i]) unpin(i);
  }

  std::byte* base() const noexcept override { return host_.base(); }
  std::size_t addresses() const noexcept override { return host_.addresses(); }
  std::size_t granule() const noexcept override { return host_.granule(); }

  void commit(std::size_t offset, std::size_t bytes) override {
    host_.commit(offset, bytes);
    std::size_t done = offset / granule();
    try {
      for (; done < (offset + bytes) / granule(); ++done) pin(done);
    } catch (...) {
      while (done > offset / granule()) unpin(--done);
      host_.decommit(offset, bytes);
      throw;
    }
  }

  void decommit(std::size_t offset, std::size_t bytes) noexcept override {
    for (std::size_t i = offset / granule(); i < (offset + bytes) / granule(); ++i) unpin(i);
    host_.decommit(offset, bytes);
  }

 private:
  void pin(std::size_t i) {
    device::check(cudaHostRegister(base() + i * granule(), granule(), cudaHostRegisterPortable));
    pinned_[i] = true;
  }
  void unpin(std::size_t i) noexcept {  // waits for copies that are under way
    device::check_in_destructor(cudaHostUnregister(base() + i * granule()));
    pinned_[i] = false;
  }

  HostArena host_;
  std::vector<bool> pinned_;  // one per granule
};

}  // namespace

std::unique_ptr<Arena> make_cuda_arena(int device, std::size_t addresses, std::size_t granule) {
  return std::make_unique<CudaArena>(device, addresses, granule);
}

std::unique_ptr<Arena> make_cuda_fixed_arena(int device, std::size_t bytes) {
  return std::make_unique<CudaFixedArena>(device, bytes);
}

std::unique_ptr<Arena> make_pinned_arena(std::size_t addresses, std::size_t granule) {
  return std::make_unique<PinnedArena>(addresses, granule);
}

}  // namespace sluice::memory
