// The makers of data movement kernels, by file; data_movement_kernels() returns all of them.
#pragma once

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

std::span<const Maker> gather_scatter_makers();  // Gather, ScatterElements, ...
std::span<const Maker> pad_resize_makers();      // Pad, Resize, Upsample
std::span<const Maker> trilu_one_hot_makers();   // Trilu, OneHot, CumSum, ...

}  // namespace sluice::engine::cuda
