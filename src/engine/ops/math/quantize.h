// Quantization to integers or 8-bit and 4-bit floats.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// saturate(round(scaled) + zero_points) as type `to`: `scaled` is x / scale, f64, rounded half to
// even; `zero_points` is f64 of the same shape. Rounds to `to` directly if it is a float type.
Tensor quantized(const Tensor& scaled, const Tensor& zero_points, DType to, bool saturate);

}  // namespace sluice::engine
