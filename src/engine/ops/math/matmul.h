// Products of stacks of matrices, by the rules of MatMul.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// a * b, of one type among f32, f64, i32, i64, u32 and u64: the last two axes are matrices,
// those before them are stretched to each other; a vector is a row on the left and a column
// on the right.
Tensor matrix_product(OpCall& call, const Tensor& a, const Tensor& b);

}  // namespace sluice::engine
