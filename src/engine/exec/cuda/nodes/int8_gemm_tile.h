// Chooses the output tile of an int8 GEMM.
#pragma once

#include "engine/exec/cuda/context/backend.h"
#include "kernels/gemm/tile_gemm.h"

namespace sluice::engine::cuda {

// The tile that measured fastest, from the context's cache or measured now; a heuristic if nothing
// is measured. `gemm` has its weight but no other pointers.
GemmTile fastest_tile(Context& context, const TileGemmCall& gemm);

}  // namespace sluice::engine::cuda
