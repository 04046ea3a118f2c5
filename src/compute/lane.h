// A stream of one GPU with memory for what runs on it. Included by .cu and CUDA sources.
#pragma once

#include "device/cuda/stream.h"
#include "memory/alloc/allocator.h"
#include "memory/alloc/workspace.h"

namespace sluice::compute {

class Lane {
 public:
  Lane(const device::Stream& stream, memory::Allocator& scratch)
      : stream_(stream), workspace_(scratch) {}

  const device::Stream& stream() const noexcept { return stream_; }

  // Device memory until the call is over.
  template <class T>
  T* scratch(std::size_t count) {
    return workspace_.take<T>(count).data();
  }

 private:
  const device::Stream& stream_;
  memory::Workspace workspace_;
};

}  // namespace sluice::compute
