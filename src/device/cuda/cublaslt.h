// GEMMs through cuBLASLt, opened at run time: the program carries no
// 700 MB library and starts without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/catalogue.h"
#include "device/cuda/stream.h"

namespace sluice::device {

// D (m x n) = A (m x k) times B (k x n), all on the device. A's rows and B's
// columns are contiguous, so element A[i][p] is at a[i * k + p], B[p][j] at
// b[j * k + p] and D[i][j] at d[j * m + i]: the layout every precision has a
// fast path for. Types of input and output: see bench_kernels.h.
struct GemmShape {
  std::int64_t m, n, k;
};

class CublasLt;

// One GEMM, ready to run with any algorithm that the cuBLASLt heuristic proposes.
// The CublasLt must outlive it. Not thread-safe.
class Gemm {
 public:
  // Throws unavailable when the library has no algorithm for it on this device, as
  // with fp8 before compute capability 8.9. `max_algorithms` at least 1.
  Gemm(const CublasLt& library, Precision precision, GemmShape shape, int max_algorithms);
  ~Gemm();
  Gemm(Gemm&&) noexcept;

  std::size_t algorithms() const noexcept;

  // Enqueues on `stream` by the `algorithm`-th proposal.
  void run(std::size_t algorithm, const void* a, const void* b, void* d,
           const Stream& stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The library, with a handle and scratch memory on one device.
class CublasLt {
 public:
  // Throws unavailable when it is not here, naming what to install.
  CublasLt(DeviceId device, std::span<const std::string> dirs);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // "cuBLASLt 13.0.2"

 private:
  friend class Gemm;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::device
