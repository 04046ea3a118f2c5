// The Hopper GEMM (compute capability 9.0: TMA, wgmma), for int8, f16 and bf16.
#pragma once

#include "kernels/gemm/tile_gemm.h"

namespace sluice::kernels::cuda {

inline bool is_sm90(GemmTile tile) { return tile >= GemmTile::sm90_m128n128; }

// Whether the kernel can do `call` with its tile, which is an sm90 tile: the activation is none,
// relu, clip or gelu (gelu not to f32), rows of results and residuals are multiples of 16 bytes,
// the window can be mapped, and at least two pipeline stages fit. The addresses in `call` are not
// looked at.
bool gemm_sm90_supports(const TileGemmCall& call);

// call.weight is in sm90_weight_order(), call.scale_bias is made of sm90_scale_bias().
void enqueue_gemm_sm90(const TileGemmCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
