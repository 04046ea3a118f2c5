// The epilogue of a GEMM or convolution as a kernel of its own, for what cuBLASLt or cuDNN does not
// fuse.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/common/real_type.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// x = activation(x + bias + residual) + residual_after, in place. Null operands are left out.
struct EpilogueCall {
  RealType type{};
  void* x = nullptr;  // rows * n
  std::int64_t rows = 0, n = 0;
  const void* bias = nullptr;      // n
  const void* residual = nullptr;  // rows * n, as is residual_after
  const void* residual_after = nullptr;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // bounds of clip
};

void enqueue_epilogue(const EpilogueCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
