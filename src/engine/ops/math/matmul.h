// Batched matrix multiplication with the broadcasting rules of MatMul.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

// a * b, both of one type among f32, f64, i32, i64, u32 and u64. The last two axes are matrices,
// the leading axes are broadcast; a vector is a row on the left and a column on the right.
Tensor batched_matmul(OpCall& call, const Tensor& a, const Tensor& b);

}  // namespace sluice::engine
