// The value type of the rules on a GPU: a value of one segment in a register of its thread.
#pragma once

#define SLUICE_RULES on_gpu
#define SLUICE_RULES_BEGIN static_assert(true)
#define SLUICE_RULES_END static_assert(true)
#define SLUICE_RULE __device__ __forceinline__
#include "market/indicators/rules/dispatch_rules-inl.h"

namespace sluice::market::on_gpu {

// kExact: quotients and roots of any value are right. Otherwise those of very small, very large and
// infinite values may be NaN instead, and nothing branches, so that the values of several bars are
// computed together.
template <bool kExact>
struct BasicGpuValue {
  double x;

  BasicGpuValue() = default;
  __device__ __forceinline__ explicit BasicGpuValue(double value) : x(value) {}
};
using GpuValue = BasicGpuValue<true>;
using ApproximateGpuValue = BasicGpuValue<false>;

template <bool e>
__device__ __forceinline__ BasicGpuValue<e> operator+(BasicGpuValue<e> a, BasicGpuValue<e> b) {
  return BasicGpuValue<e>(a.x + b.x);
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> operator-(BasicGpuValue<e> a, BasicGpuValue<e> b) {
  return BasicGpuValue<e>(a.x - b.x);
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> operator*(BasicGpuValue<e> a, BasicGpuValue<e> b) {
  return BasicGpuValue<e>(a.x * b.x);
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> plus_product(BasicGpuValue<e> c, BasicGpuValue<e> a,
                                                         BasicGpuValue<e> b) {
  return BasicGpuValue<e>(fma(a.x, b.x, c.x));
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> minus_product(BasicGpuValue<e> c, BasicGpuValue<e> a,
                                                          BasicGpuValue<e> b) {
  return BasicGpuValue<e>(fma(-a.x, b.x, c.x));
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> magnitude(BasicGpuValue<e> a) {
  return BasicGpuValue<e>(fabs(a.x));
}
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> pick_lt(BasicGpuValue<e> a, BasicGpuValue<e> b,
                                                    BasicGpuValue<e> yes, BasicGpuValue<e> no) {
  return BasicGpuValue<e>(a.x < b.x ? yes.x : no.x);
}

// Returns whether the approximations below work for a value with this upper half: it is neither
// zero, denormal, above 2^1021, infinite nor NaN.
__device__ __forceinline__ bool ordinary(unsigned high) {
  return (high & 0x7fffffffu) - 0x00100000u < 0x7fc00000u - 0x00100000u;
}
__device__ __forceinline__ unsigned upper_half(double x) {
  return static_cast<unsigned>(__double2hiint(x));
}

// Right to an ulp or two, in 5 double instructions instead of the 20 of the exact division.
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> quotient(BasicGpuValue<e> a, BasicGpuValue<e> b) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(b.x));
  r = fma(r, fma(-b.x, r, 1.0), r);
  double q = a.x * r;
  q = fma(r, fma(-b.x, q, a.x), q);
  const bool good = ordinary(upper_half(b.x));
  if constexpr (e) return BasicGpuValue<e>(good && fabs(q) < INFINITY ? q : a.x / b.x);
  return BasicGpuValue<e>(good ? q : NAN);
}

// Right to an ulp or two, in 7 instructions instead of about 25. An approximate root takes values
// below 1e-313 for 0.
template <bool e>
__device__ __forceinline__ BasicGpuValue<e> root(BasicGpuValue<e> a) {
  if constexpr (e) return BasicGpuValue<e>(sqrt(a.x));
  double r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(a.x));
  double g = a.x * r, h = 0.5 * r;
  const double off = fma(-g, h, 0.5);
  g = fma(g, off, g), h = fma(h, off, h);
  g = fma(fma(-g, g, a.x), h, g);
  const unsigned high = upper_half(a.x);
  const double other = __hiloint2double(high == 0 ? 0 : 0x7ff80000, 0);
  return BasicGpuValue<e>(ordinary(high) ? g : other);
}

__device__ __forceinline__ bool finite(double x) {
  return (__double2hiint(x) & 0x7ff00000) != 0x7ff00000;
}

}  // namespace sluice::market::on_gpu
