// GEMM and implicit-GEMM convolution on CUDA with the whole epilogue in one kernel, by output
// tiles: int8_gemm_sm80.cu for int8 on compute capability 8.0 and up, gemm_sm90.cu for int8, f16
// and bf16 on Hopper (9.0: TMA, wgmma).
#pragma once

#include <cstdint>

#include "kernels/data_movement/im2col.h"
#include "kernels/gemm/gemm_epilogue.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// A column's scale and bias, folded together by sm90_scale_bias().
struct ScaleBias {
  float scale = 0, bias = 0;
};
inline constexpr std::int64_t kMaxTileColumns = 128;

// Output tiles, rows x columns. The sm90 tiles are for Hopper.
enum class GemmTile { m128n128, m128n64, m64n64, sm90_m128n128, sm90_m128n64 };

// A GEMM, or a convolution as an implicit GEMM, with its epilogue. The A operand is rows.x;
// rows.channels is a multiple of 16 (rows.to, first, count and sign_flip are not used). The B
// operand, weight, is n rows of rows.row_bytes bytes; sm90 tiles take it in sm90_weight_order().
// Operands are u8 or i8 and i8; with sm90 tiles also f16 or bf16.
struct TileGemmCall {
  Im2col rows{};
  GemmType from = GemmType::u8;  // of rows.x: u8 or i8; with sm90 tiles also f16 or bf16
  const void* weight = nullptr;
  GemmEpilogue epilogue{};                // its sums are not used
  const ScaleBias* scale_bias = nullptr;  // sm90 tiles: as many as a multiple of kMaxTileColumns
  GemmTile tile = GemmTile::m128n128;
};
inline constexpr int kTileGemmMinCapability = 80;            // compute capability
inline constexpr std::int64_t kTileGemmMaxRowBytes = 65536;  // int32 accumulators do not overflow
// Limit on rows, and on pixels of x: the kernels index them with an int.
inline constexpr std::int64_t kTileGemmMaxRows = std::int64_t{1} << 28;
// On Hopper by enqueue_gemm_sm90() if the tile is an sm90 tile.
void enqueue_tile_gemm(const TileGemmCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
