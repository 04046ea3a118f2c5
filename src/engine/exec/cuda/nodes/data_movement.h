// The moves' makers, by file; move_kernels() has all of them.
#pragma once

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

std::span<const Maker> index_makers();  // Gather, ScatterElements, ...
std::span<const Maker> table_makers();  // Pad, Resize, Upsample
std::span<const Maker> rule_makers();   // Trilu, OneHot, CumSum, ...

}  // namespace sluice::engine::cuda
