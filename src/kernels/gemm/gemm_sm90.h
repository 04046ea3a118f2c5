// The int8 GEMM for GPUs of compute capability 9.0 (TMA, wgmma).
#pragma once

#include "kernels/gemm/tile_gemm.h"

namespace sluice::kernels::cuda {

inline bool is_sm90(GemmTile tile) { return tile >= GemmTile::sm90_m128n128; }

// Whether the kernel can do `call` with its tile, which is an sm90 tile: the activation is none,
// relu, clip or gelu (gelu not to f32), rows of results and residuals are multiples of 16 bytes,
// the window can be mapped, and at least two pipeline stages fit. The addresses in `call` are not
// looked at.
bool int8_gemm_sm90_supports(const Int8GemmCall& call);

// call.weight is in sm90_weight_order(), call.scale_bias is made of sm90_scale_bias().
void enqueue_int8_gemm_sm90(const Int8GemmCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
