// Tensors widened to a compute type, for operators that are not instantiated per element type.
#pragma once

#include "engine/ops/convert.h"

namespace sluice::engine {

// f32 for f16 and bf16; f64 for integers and booleans, which it represents more exactly.
inline DType wide_type(DType type) {
  const bool single = type == DType::f32 || type == DType::f16 || type == DType::bf16;
  return single ? DType::f32 : DType::f64;
}

// An omitted tensor stays omitted.
inline Tensor widened(const Tensor& tensor) {
  return tensor ? converted(tensor, wide_type(tensor.dtype())) : tensor;
}

// Converts a widened result back to its original type.
inline Tensor narrowed(const Tensor& tensor, DType to) { return converted(tensor, to); }

template <class Body>
void visit_wide(DType type, Body&& body) {
  visit_wide_reals(type, std::forward<Body>(body));
}

// The value of a tensor with one element.
inline double number(const Tensor& tensor) {
  require(tensor.size() == 1, "one number is needed, not a tensor of " + to_string(tensor.shape()));
  return as<double>(converted(tensor, DType::f64))[0];
}
inline std::int64_t integer(const Tensor& tensor) {
  require(is_integer(tensor.dtype()) && tensor.size() == 1, "one integer is needed");
  return as<std::int64_t>(converted(tensor, DType::i64))[0];
}

}  // namespace sluice::engine
