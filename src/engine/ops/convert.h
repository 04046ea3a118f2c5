// Numbers of one element type as another.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

struct CastRules {
  bool saturate = true;  // floats of 8 bits: a value too large is the largest, not infinite
  enum class Round { up, down, nearest } round = Round::up;  // to powers of two (f8e8m0)
};

// The same values as `to`; shares the elements where it is that already. Floats become
// integers toward zero; what does not fit keeps its low bits. Text is read and written as
// numbers; what is none throws invalid_argument.
Tensor converted(const Tensor& from, DType to, const CastRules& rules = {});

// What reals are computed in: f64 as f64, others as f32.
inline DType wide_real(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
// What numbers are computed in: f32, f64, i64 or u64.
DType wide_number(DType type);

template <class Body>
void visit_wide_reals(DType type, Body&& body) {
  visit_types<float, double>(type, std::forward<Body>(body));
}
template <class Body>
void visit_wide_numbers(DType type, Body&& body) {
  visit_types<float, double, std::int64_t, std::uint64_t>(type, std::forward<Body>(body));
}

// Toward zero; what does not fit becomes the least value, as processors do.
std::int64_t to_integer(double value);

// The double as a float such that rounding that once more, to fewer bits, gives what rounding
// the double directly would.
float to_odd(double value);

}  // namespace sluice::engine
