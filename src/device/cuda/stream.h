// CUDA streams, as values that clean up after themselves.
#pragma once

#include <driver_types.h>

#include <memory>

#include "device/cuda/device_scope.h"

namespace sluice::device {

// An ordered queue of work on one device. Movable; destroying it does not wait
// for the work, so wait() before freeing what the work touches.
class Stream {
 public:
  explicit Stream(DeviceId device);

  DeviceId device() const noexcept { return device_; }
  cudaStream_t get() const noexcept { return handle_.get(); }
  void wait() const;

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const noexcept;
  };
  DeviceId device_;
  std::unique_ptr<CUstream_st, Destroy> handle_;
};

}  // namespace sluice::device
