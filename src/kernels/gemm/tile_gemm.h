// Quantized GEMM and convolution on CUDA. int8_gemm_sm80 and int8_gemm_sm90 compute an int8
// (implicit) GEMM with its whole epilogue in one kernel; around cuBLASLt there are an im2col kernel
// before it and an epilogue kernel behind it.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/data_movement/im2col.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// Element types of operands and results.
enum class GemmType { none, f32, f16, bf16, u8, i8, f8e4m3 };
inline int bytes_of(GemmType type) {
  if (type == GemmType::f32) return 4;
  return type == GemmType::f16 || type == GemmType::bf16 ? 2 : 1;
}

// y = quantize(activation((sum - compensation) * scale + bias + residual)), or with the residual
// added behind the activation. scale, bias and compensation have one value for each of the n
// columns.
struct QuantEpilogue {
  const void* sums = nullptr;  // accumulators, `sum_stride` elements from row to row
  bool int32_sums = true;      // false: f32
  std::int64_t sum_stride = 0;
  std::int64_t rows = 0;
  int n = 0;
  const std::int32_t* compensation = nullptr;  // of the zero point of x; null: none
  const float *scale = nullptr, *bias = nullptr;
  const void* residual = nullptr;
  GemmType residual_type = GemmType::none, to = GemmType::f32;
  float residual_scale = 1, to_scale = 1;
  int residual_zero = 0, to_zero = 0;
  bool residual_first = false;          // the residual is added before the activation
  bool has_large_compensation = false;  // a float does not hold it exactly
  Activation activation = Activation::none;
  float low = 0, high = 0;  // bounds of clip
  void* y = nullptr;
};
void enqueue(const QuantEpilogue& epilogue, CUstream_st* stream);

// A column's scale and bias, folded together by sm90_scale_bias().
struct ScaleBias {
  float scale = 0, bias = 0;
};
inline constexpr std::int64_t kMaxTileColumns = 128;

// Output tiles, rows x columns. The sm90 tiles use TMA and wgmma.
enum class GemmTile { m128n128, m128n64, m64n64, sm90_m128n128, sm90_m128n64 };

// An int8 GEMM, or a convolution as an implicit GEMM, with its epilogue. The A operand is rows.x;
// rows.channels is a multiple of 16 (rows.to, first, count and flip are not used). The B operand,
// weight, is n rows of rows.row bytes of i8; sm90 tiles take it in sm90_weight_order(). The sm90
// tiles also take f16 and bf16 operands.
struct Int8GemmCall {
  Im2col rows{};
  GemmType from = GemmType::u8;  // of rows.x: u8 or i8; with sm90 tiles also f16 or bf16
  const void* weight = nullptr;
  QuantEpilogue epilogue{};               // its sums are not used
  const ScaleBias* scale_bias = nullptr;  // sm90 tiles: as many as a multiple of kMaxTileColumns
  GemmTile tile = GemmTile::m128n128;
};
inline constexpr int kInt8GemmMinCapability = 80;            // compute capability
inline constexpr std::int64_t kInt8GemmMaxRowBytes = 65536;  // int32 accumulators do not overflow
// Limit on rows, and on pixels of x: the kernels index them with an int.
inline constexpr std::int64_t kInt8GemmMaxRows = std::int64_t{1} << 28;
void enqueue(const Int8GemmCall& call, CUstream_st* stream);

// QuantizeLinear with one scale and zero point: x is f32, f16 or bf16.
struct QuantizeCall {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t count = 0;
  GemmType from = GemmType::f32, to = GemmType::f8e4m3;
  float scale = 1;
  int zero = 0;
};
void enqueue(const QuantizeCall& call, CUstream_st* stream);

// y = x * scale, for x of f8e4m3.
void enqueue_dequantize_fp8(const void* x, float* y, std::int64_t count, float scale,
                            CUstream_st* stream);

}  // namespace sluice::kernels::cuda
