// Which tile a product of small numbers is made of.
#pragma once

#include "engine/exec/cuda/context/backend.h"
#include "kernels/quantized/int8_gemm.h"

namespace sluice::engine::cuda {

// The one that measured best, as `context` knows or finds out; a guess where nothing is measured.
// `product` has its weight, and nothing else of what it reads and writes.
SmallTile quickest_tile(Context& context, const SmallProduct& product);

}  // namespace sluice::engine::cuda
