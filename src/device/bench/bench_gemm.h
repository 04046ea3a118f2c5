// One GEMM with random data on the device: run and compared with
// the same GEMM in double precision. Inside the benchmarks and their test.
#pragma once

#include <cstdint>

#include "device/cuda/cublaslt.h"
#include "device/cuda/device_buffer.h"

namespace sluice::device {

// The maximum relative error of a correct GEMM in this precision. The
// output's own rounding dominates in bf16 and fp16, Hopper's short accumulators
// in fp8; int8 must be exact.
double gemm_tolerance(Precision precision) noexcept;

class GemmProblem {
 public:
  // Allocates on the current device and draws random inputs on `stream`. Throws
  // unavailable when the device cannot do it, exhausted when it does not fit.
  GemmProblem(const CublasLt& library, Precision precision, GemmShape shape, int max_algorithms,
              const Stream& stream);

  std::size_t algorithms() const noexcept { return gemm_.algorithms(); }
  void run(std::size_t algorithm, const Stream& stream) const;

  // Draws new inputs, overwrites the output, runs, and compares about a thousand
  // elements of it, corners among them. Throws internal when an element was left
  // unwritten. Waits.
  double error(std::size_t algorithm, std::uint64_t seed, const Stream& stream);

 private:
  static std::size_t elements(std::int64_t rows, std::int64_t cols);
  void draw(std::uint64_t seed, const Stream& stream);
  double sampled_error(std::uint64_t seed) const;

  Precision precision_;
  GemmShape shape_;
  Gemm gemm_;
  DeviceBuffer a_, b_, d_;
};

}  // namespace sluice::device
