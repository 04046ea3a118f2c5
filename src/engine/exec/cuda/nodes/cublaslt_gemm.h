// GEMM by cuBLASLt, with the algorithm that measured fastest.
#pragma once

#include <optional>

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

// d = epilogue(alpha * a * b + beta * c + bias), row-major, batched with strides. c may be d.
struct CublasltGemm {
  // The type of a, b, c, d and bias; d is i32 for i8, and f32 for f8e4m3fn.
  DType dtype = DType::none;
  std::int64_t m = 0, n = 0, k = 0;                 // a is m x k, b is k x n
  bool transposed_a = false, transposed_b = false;  // stored as k x m, as n x k
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // batch strides in elements; c as d
  float alpha = 1, beta = 0;
  bool bias = false;  // n values, added to each row
  enum class Epilogue { none, relu, gelu_tanh } epilogue = Epilogue::none;
  std::size_t alignment = 256;  // of the pointers, in bytes
};

// Thread-safe.
class CublasltPlan {
 public:
  // Throws unavailable if cuBLASLt is not installed or has no algorithm for it.
  CublasltPlan(Context& context, const CublasltGemm& gemm);
  ~CublasltPlan();
  CublasltPlan(const CublasltPlan&) = delete;
  CublasltPlan& operator=(const CublasltPlan&) = delete;

  std::size_t scratch() const noexcept;

  struct Pointers {
    const void *a, *b, *c, *bias;  // c and bias may be null
    void *d, *scratch;
  };
  void run(const Pointers& at, CUstream_st* stream) const;

  // Measured time on random values; 0 if nothing is measured.
  double us() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "13.1.0", or empty if cuBLASLt is not installed.
std::string cublaslt_version(Context& context);

// Null if cuBLASLt is not installed or has no algorithm for it.
std::unique_ptr<CublasltPlan> plan_cublaslt(Context& context, const CublasltGemm& gemm);

}  // namespace sluice::engine::cuda
