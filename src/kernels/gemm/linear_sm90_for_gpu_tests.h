// A Linear layer with random inputs on the device, for the test and the benchmark of the Hopper
// kernel.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/device_buffer.h"
#include "device/cuda/stream.h"
#include "kernels/gemm/linear_sm90.h"
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

inline bool has_linear_sm90() {
  int major = 0, device = 0;
  device::check(cudaGetDevice(&device));
  device::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 && linear_sm90_supports({.rows = 1, .n = 8, .k = 8});
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

}  // namespace sluice::kernels::cuda
