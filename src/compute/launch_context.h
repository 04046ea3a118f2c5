// The stream and the scratch memory of one call on a GPU. Included by .cu and CUDA sources.
#pragma once

#include "device/cuda/stream.h"
#include "memory/alloc/allocator.h"
#include "memory/alloc/workspace.h"

namespace sluice::compute {

class LaunchContext {
 public:
  LaunchContext(const device::Stream& stream, memory::Allocator& scratch)
      : stream_(stream), workspace_(scratch) {}

  const device::Stream& stream() const noexcept { return stream_; }

  // Device memory that is valid until the call ends.
  template <class T>
  T* scratch(std::size_t count) {
    return workspace_.take<T>(count).data();
  }

 private:
  const device::Stream& stream_;
  memory::Workspace workspace_;
};

}  // namespace sluice::compute
