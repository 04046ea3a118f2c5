// Device and pinned host memory that free themselves, for benchmarks and tests
// that sit below the memory module.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "device/cuda/check.h"

namespace sluice::device {

struct FreeDevice {
  void operator()(void* p) const noexcept { check_in_destructor(cudaFree(p)); }
};
using DeviceBuffer = std::unique_ptr<void, FreeDevice>;

struct FreePinned {
  void operator()(void* p) const noexcept { check_in_destructor(cudaFreeHost(p)); }
};
using PinnedBuffer = std::unique_ptr<void, FreePinned>;

// On the current device. Both throw exhausted when there is no memory.
inline DeviceBuffer device_buffer(std::size_t bytes) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes));
  return DeviceBuffer(p);
}
inline PinnedBuffer pinned_buffer(std::size_t bytes) {
  void* p = nullptr;
  check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
  return PinnedBuffer(p);
}

}  // namespace sluice::device
