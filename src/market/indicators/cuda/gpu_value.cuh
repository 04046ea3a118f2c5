// The value type of the rules on a GPU: a value of one segment in a register of its thread.
#pragma once

#define SLUICE_RULES on_gpu
#define SLUICE_RULES_BEGIN static_assert(true)
#define SLUICE_RULES_END static_assert(true)
#define SLUICE_RULE __device__ __forceinline__
#include "market/indicators/rules/dispatch_rules-inl.h"

namespace sluice::market::on_gpu {

// kExact: quotients and roots of any value are right. Else those of very small or large ones
// (and of what is not finite) may be NaN in place of it, and nothing branches, so that the
// values of several bars are worked on together.
template <bool kExact>
struct CellOf {
  double x;

  CellOf() = default;
  __device__ __forceinline__ explicit CellOf(double value) : x(value) {}
};
using Cell = CellOf<true>;
using Rough = CellOf<false>;

template <bool e>
__device__ __forceinline__ CellOf<e> operator+(CellOf<e> a, CellOf<e> b) {
  return CellOf<e>(a.x + b.x);
}
template <bool e>
__device__ __forceinline__ CellOf<e> operator-(CellOf<e> a, CellOf<e> b) {
  return CellOf<e>(a.x - b.x);
}
template <bool e>
__device__ __forceinline__ CellOf<e> operator*(CellOf<e> a, CellOf<e> b) {
  return CellOf<e>(a.x * b.x);
}
template <bool e>
__device__ __forceinline__ CellOf<e> plus_product(CellOf<e> c, CellOf<e> a, CellOf<e> b) {
  return CellOf<e>(fma(a.x, b.x, c.x));
}
template <bool e>
__device__ __forceinline__ CellOf<e> minus_product(CellOf<e> c, CellOf<e> a, CellOf<e> b) {
  return CellOf<e>(fma(-a.x, b.x, c.x));
}
template <bool e>
__device__ __forceinline__ CellOf<e> magnitude(CellOf<e> a) {
  return CellOf<e>(fabs(a.x));
}
template <bool e>
__device__ __forceinline__ CellOf<e> pick_lt(CellOf<e> a, CellOf<e> b, CellOf<e> yes,
                                             CellOf<e> no) {
  return CellOf<e>(a.x < b.x ? yes.x : no.x);
}

// Returns whether the approximations below work for a value with this upper half: neither
// zero, denormal, past 2^1021 nor what is not finite.
__device__ __forceinline__ bool ordinary(unsigned high) {
  return (high & 0x7fffffffu) - 0x00100000u < 0x7fc00000u - 0x00100000u;
}
__device__ __forceinline__ unsigned upper_half(double x) {
  return static_cast<unsigned>(__double2hiint(x));
}

// Within an ulp or two, in 5 double instructions in place of the exact division's 20.
template <bool e>
__device__ __forceinline__ CellOf<e> quotient(CellOf<e> a, CellOf<e> b) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(b.x));
  r = fma(r, fma(-b.x, r, 1.0), r);
  double q = a.x * r;
  q = fma(r, fma(-b.x, q, a.x), q);
  const bool good = ordinary(upper_half(b.x));
  if constexpr (e) return CellOf<e>(good && fabs(q) < INFINITY ? q : a.x / b.x);
  return CellOf<e>(good ? q : NAN);
}

// The same with 7 in place of some 25. What a rough root takes for 0 is less than 1e-313.
template <bool e>
__device__ __forceinline__ CellOf<e> root(CellOf<e> a) {
  if constexpr (e) return CellOf<e>(sqrt(a.x));
  double r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a.x));
  double g = a.x * r, h = 0.5 * r;
  const double off = fma(-g, h, 0.5);
  g = fma(g, off, g), h = fma(h, off, h);
  g = fma(fma(-g, g, a.x), h, g);
  const unsigned high = upper_half(a.x);
  const double other = __hiloint2double(high == 0 ? 0 : 0x7ff80000, 0);
  return CellOf<e>(ordinary(high) ? g : other);
}

__device__ __forceinline__ bool finite(double x) {
  return (__double2hiint(x) & 0x7ff00000) != 0x7ff00000;
}

}  // namespace sluice::market::on_gpu
