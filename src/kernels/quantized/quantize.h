// Quantizing, dequantizing, and the epilogue behind the int8 and fp8 GEMMs of cuBLASLt.
#pragma once

#include "kernels/gemm/gemm_epilogue.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// The epilogue of epilogue.sums, as a kernel of its own.
void enqueue_gemm_epilogue(const GemmEpilogue& epilogue, CUstream_st* stream);

// QuantizeLinear with one scale and zero point: x is f32, f16 or bf16.
struct QuantizeCall {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
  GemmType from = GemmType::f32, to = GemmType::f8e4m3;
  float scale = 1;
  int zero = 0;
};
void enqueue_quantize(const QuantizeCall& call, CUstream_st* stream);

// y = x * scale, for x of f8e4m3.
void enqueue_dequantize_fp8(const void* x, float* y, std::int64_t count, float scale,
                            CUstream_st* stream);

}  // namespace sluice::kernels::cuda
