// Times on the device, by CUDA events on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "device/cuda/check.h"

namespace sluice::engine::cuda {

class Timer {
 public:
  Timer() = default;
  ~Timer() {
    for (const cudaEvent_t event : events_) device::check_in_destructor(cudaEventDestroy(event));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void mark(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    device::check(cudaEventCreate(&event));
    events_.push_back(event);
    device::check(cudaEventRecord(event, stream));
  }
  // Microseconds between two marks, by their numbers; the stream has passed both.
  double us(std::size_t from, std::size_t to) const {
    float ms = 0;
    device::check(cudaEventElapsedTime(&ms, events_[from], events_[to]));
    return static_cast<double>(ms) * 1000;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

}  // namespace sluice::engine::cuda
