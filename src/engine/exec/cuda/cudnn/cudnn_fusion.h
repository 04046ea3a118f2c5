// Convolutions and GEMMs with a fused epilogue as one cuDNN kernel, run by the engine that measured
// fastest. cuDNN is opened at run time.
#pragma once

#include <array>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/common/activation.h"

namespace sluice::engine::cuda {

// y = activation(x w + residual + bias), with one element type and accumulation in f32. f32 is not
// reduced to TF32 unless the context's `tf32` is set.
struct CudnnFusion {
  DType dtype = DType::none;
  // Convolution: dimensions in the order NCHW, NHWC in memory, w as [out, rows, columns, in /
  // group]. GEMM: x [1, m, k], w [1, k, n], y [1, m, n], row-major.
  std::vector<std::int64_t> x, w, y;
  bool gemm = false;
  std::array<std::int64_t, 2> strides{1, 1}, dilations{1, 1}, pre_padding{}, post_padding{};
  bool bias = false, residual = false;
  Activation activation = Activation::none;
  float low = 0, high = 0;
};

// Everything that the choice of an engine depends on, besides the device and cuDNN: a key of the
// context's choices.
std::string algorithm_key(const CudnnFusion& fusion, const Options& options);

// Thread-safe.
class CudnnPlan {
 public:
  // Throws unavailable if cuDNN is not installed or has no engine for it. The caller holds
  // Context::making; run() does not need it.
  CudnnPlan(Context& context, const CudnnFusion& fusion);
  ~CudnnPlan();
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  std::size_t scratch() const noexcept;

  struct Pointers {
    const void *x, *w, *bias, *residual;  // bias and residual may be null
    void *y, *scratch;
  };
  void run(const Pointers& at, CUstream_st* stream) const;

  double us() const noexcept;               // see CublasltPlan
  const std::string& key() const noexcept;  // of the choice in the context

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "91900"; empty if cuDNN is not installed or this build has no support for it.
std::string cudnn_version(Context& context);

// Null if cuDNN does not support it or failed transiently.
std::unique_ptr<CudnnPlan> plan_cudnn(Context& context, const CudnnFusion& fusion);

}  // namespace sluice::engine::cuda
