// The operations that rules are written in, for a value of type double. SimdValue
// (cpu/simd_value-inl.h) and GpuValue (cuda/gpu_value.cuh) have their own.
//
// The rules are compiled once per instruction set: the files of this folder are included
// again for each by Highway's foreach_target.h. A CUDA source, which has no Highway, names
// its own namespace as SLUICE_RULES, and the other macros, before it includes them.
#include "market/indicators/plan/plan.h"

#ifndef SLUICE_RULES
#include <hwy/highway.h>
#define SLUICE_RULES HWY_NAMESPACE
#define SLUICE_RULES_BEGIN HWY_BEFORE_NAMESPACE()
#define SLUICE_RULES_END HWY_AFTER_NAMESPACE()
#define SLUICE_RULE HWY_INLINE  // a rule's state stays in registers
#endif

#if defined(SLUICE_MARKET_SCALAR_VALUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_MARKET_SCALAR_VALUE_INL_H_
#undef SLUICE_MARKET_SCALAR_VALUE_INL_H_
#else
#define SLUICE_MARKET_SCALAR_VALUE_INL_H_
#endif

#include <climits>
#include <cmath>
#include <type_traits>

SLUICE_RULES_BEGIN;
namespace sluice::market::SLUICE_RULES {

// A count of bars above every period.
inline constexpr int kSettled = INT_MAX;

// a < b ? yes : no; a comparison with a NaN is false.
SLUICE_RULE double pick_lt(double a, double b, double yes, double no) { return a < b ? yes : no; }
SLUICE_RULE double magnitude(double a) { return std::fabs(a); }
SLUICE_RULE double root(double a) { return std::sqrt(a); }
SLUICE_RULE double quotient(double a, double b) { return a / b; }
// c + a b and c - a b, rounded once.
SLUICE_RULE double plus_product(double c, double a, double b) { return std::fma(a, b, c); }
SLUICE_RULE double minus_product(double c, double a, double b) { return std::fma(-a, b, c); }

// The root of values that are not under `min_value`; 0 for others.
template <class V>
SLUICE_RULE V root_from(V min_value, V a) {
  return root(pick_lt(a, min_value, V(0), a));
}

// Differences of values near `a` that are below it are 0 but for rounding; those of zeros are, too.
template <class V>
SLUICE_RULE V rounding_of(V a, double fraction) {
  return plus_product(V(kSmallest), magnitude(a), V(fraction));
}

template <class V>
SLUICE_RULE V larger(V a, V b) {
  return pick_lt(a, b, b, a);
}

}  // namespace sluice::market::SLUICE_RULES
SLUICE_RULES_END;

#endif
