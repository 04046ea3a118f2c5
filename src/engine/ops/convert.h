// Conversion between element types.
#pragma once

#include "engine/ops/op.h"

namespace sluice::engine {

struct CastRules {
  bool saturate = true;  // 8-bit floats: overflow saturates instead of becoming infinite
  enum class Round { up, down, nearest } round = Round::up;  // to powers of two (f8e8m0)
};

// The same values as type `to`; shares the elements if the type is equal. Floats truncate toward
// zero; integers that do not fit keep their low bits. Strings are parsed and formatted as numbers;
// throws invalid_argument for other text.
Tensor converted(const Tensor& from, DType to, const CastRules& rules = {});

// The compute type of floats: f64 for f64, else f32.
inline DType wide_real(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
// The compute type of numbers: f32, f64, i64 or u64.
DType wide_number(DType type);

template <class Body>
void visit_wide_reals(DType type, Body&& body) {
  visit_types<float, double>(type, std::forward<Body>(body));
}
template <class Body>
void visit_wide_numbers(DType type, Body&& body) {
  visit_types<float, double, std::int64_t, std::uint64_t>(type, std::forward<Body>(body));
}

// Truncates toward zero; out-of-range values become the minimum, as CPUs do.
std::int64_t to_integer(double value);

// Rounds to odd, so that rounding the float again to fewer bits equals rounding the double
// directly.
float to_odd(double value);

}  // namespace sluice::engine
