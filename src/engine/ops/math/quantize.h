// Numbers as small integers or floats, counted in steps from a zero point.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// Of each element of `steps`, f64: rounded to the nearest integer (half to even), moved by that
// of `zeros`, also f64 and of its shape, and held within `to`'s limits; a float of few bits
// where `to` is one.
Tensor quantized(const Tensor& steps, const Tensor& zeros, DType to, bool saturate);

}  // namespace sluice::engine
