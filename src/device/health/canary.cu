// Every thread mixes its own index 64 times, in integers and in floats, writes the
// result, and the host does the same sums. Touches 8 MiB: enough to use every
// multiprocessor, little enough to fit beside a full load.
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/cuda/device_buffer.h"
#include "device/cuda/launch.cuh"
#include "device/health/canary.h"

namespace sluice::device {

namespace {

constexpr unsigned kNumbers = 1U << 20;
constexpr unsigned kThreads = 256;
constexpr int kRounds = 64;

struct Mixed {
  std::uint32_t bits;
  float sum;
};

// The same operations in the same order on both sides: the results are equal to
// the last bit, so any difference is a fault.
__host__ __device__ Mixed mix(std::uint32_t index) {
  Mixed m{index * 2654435761U + 1, 0};
  for (int i = 0; i < kRounds; ++i) {
    m.bits ^= m.bits << 13;
    m.bits ^= m.bits >> 17;
    m.bits ^= m.bits << 5;
    // Small integers: exact in float, whatever the order or fusion.
    m.sum += static_cast<float>(m.bits >> 20);
  }
  return m;
}

__global__ void mix_kernel(Mixed* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kNumbers) out[i] = mix(i);
}

CanaryReport compare(const std::vector<Mixed>& got) {
  for (std::uint32_t i = 0; i < kNumbers; ++i) {
    const auto want = mix(i);
    if (got[i].bits != want.bits || got[i].sum != want.sum)
      return {false, "wrong result at element " + std::to_string(i)};
  }
  return {true, "computed " + std::to_string(kNumbers) + " right results"};
}

CanaryReport compute(int device) {
  const Stream stream(DeviceId{device});
  const DeviceScope on(stream.device());
  const auto out = device_buffer(kNumbers * sizeof(Mixed));
  launch(stream, {kNumbers / kThreads, kThreads}, mix_kernel, static_cast<Mixed*>(out.get()));
  std::vector<Mixed> got(kNumbers);
  check(cudaMemcpyAsync(got.data(), out.get(), kNumbers * sizeof(Mixed), cudaMemcpyDeviceToHost,
                        stream.get()));
  stream.wait();
  return compare(got);
}

}  // namespace

// Only a driver too old for this build and a lack of memory say nothing about the
// GPU. One that NVML lists and CUDA does not see is a fault like any other.
std::optional<CanaryReport> compute_canary(std::string& why_not, int device) {
  int seen = 0;
  if (const auto status = cudaGetDeviceCount(&seen); status == cudaErrorInsufficientDriver) {
    why_not = cudaGetErrorString(status);
    return std::nullopt;
  }
  try {
    return compute(device);
  } catch (const Error& e) {
    if (e.code() != Code::exhausted) return CanaryReport{false, e.what()};
    why_not = e.what();
    return std::nullopt;
  }
}

}  // namespace sluice::device
