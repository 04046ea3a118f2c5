// GPU tests and benchmarks of single kernels share this: arrays of 16-bit floats on the device, and
// CUDA graphs that are timed.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/device_buffer.h"
#include "device/cuda/stream.h"
#include "kernels/common/real_type.h"
#include "tensor/narrow.h"

namespace sluice::kernels::cuda {

using Bits = std::vector<std::uint16_t>;  // f16 or bf16

inline float float_of(std::uint16_t bits, RealType type) {
  if (type == RealType::bf16) {
    BFloat16 narrow;
    narrow.bits = bits;
    return narrow;
  }
  return half_to_float(bits);
}
inline std::uint16_t bits_of(float x, RealType type) {
  return type == RealType::bf16 ? BFloat16(x).bits : Half(x).bits;
}

// Uniform in [-scale, scale], from a table, because a conversion takes longer.
inline Bits random_bits(std::size_t count, float scale, RealType type, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::array<std::uint16_t, 4096> table;
  for (std::uint16_t& bits : table) bits = bits_of(uniform(random), type);
  Bits made(count);
  for (std::uint16_t& bits : made) bits = table[random() % table.size()];
  return made;
}

template <class T>
device::DeviceBuffer on_device(const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  device::DeviceBuffer made = device::device_buffer(bytes);
  device::check(cudaMemcpy(made.get(), values.data(), bytes, cudaMemcpyHostToDevice));
  device::check(cudaDeviceSynchronize());  // a copy from pageable memory may return before
  return made;
}

// Ends this process if a kernel never ends.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds) { alarm(seconds); }
  ~Watchdog() { alarm(0); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

inline bool is_hopper() {
  int major = 0, device = 0;
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9;
}

// A graph of what `enqueue` puts into the stream.
struct CapturedGraph {
  template <class Enqueue>
  CapturedGraph(const device::Stream& stream, const Enqueue& enqueue) {
    cudaGraph_t graph = nullptr;
    device::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    try {
      enqueue();
    } catch (...) {
      device::check_in_destructor(cudaStreamEndCapture(stream.get(), &graph));
      if (graph != nullptr) device::check_in_destructor(cudaGraphDestroy(graph));
      throw;
    }
    device::check(cudaStreamEndCapture(stream.get(), &graph));
    const cudaError_t status = cudaGraphInstantiate(&exec, graph, 0);
    device::check_in_destructor(cudaGraphDestroy(graph));
    device::check(status);
  }
  ~CapturedGraph() { device::check_in_destructor(cudaGraphExecDestroy(exec)); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void launch(const device::Stream& stream) const {
    device::check(cudaGraphLaunch(exec, stream.get()));
  }

  cudaGraphExec_t exec = nullptr;
};

// Times `calls` calls of enqueue(i) as one CUDA graph. The median of the runs leaves out the first,
// which warms up.
class TimedGraph {
 public:
  TimedGraph(std::string name, const device::Stream& stream, int calls,
             const std::function<void(int)>& enqueue)
      : name_(std::move(name)), calls_(calls), stream_(stream), graph_(stream, [&] {
          for (int i = 0; i < calls; ++i) enqueue(i);
        }) {
    device::check(cudaEventCreate(&begin_));
    device::check(cudaEventCreate(&end_));
  }
  ~TimedGraph() {
    device::check_in_destructor(cudaEventDestroy(begin_));
    device::check_in_destructor(cudaEventDestroy(end_));
  }
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;

  void run() {
    float ms = 0;
    device::check(cudaEventRecord(begin_, stream_.get()));
    graph_.launch(stream_);
    device::check(cudaEventRecord(end_, stream_.get()));
    device::check(cudaEventSynchronize(end_));
    device::check(cudaEventElapsedTime(&ms, begin_, end_));
    us_.push_back(ms * 1000 / static_cast<float>(calls_));
  }
  double us() const {  // of a call; after a run()
    std::vector<float> sorted(us_.begin() + (us_.size() > 1), us_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  int calls_;
  const device::Stream& stream_;
  CapturedGraph graph_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::vector<float> us_;
};

}  // namespace sluice::kernels::cuda
