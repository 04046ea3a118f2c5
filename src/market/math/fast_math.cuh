// Fast division and square roots on an NVIDIA GPU: the approximate instruction (good to
// 2^-22) and one step of third order, instead of the library's exactly rounded routines.
// Comparisons that only keep a number in a range look at its upper half, as an integer: they
// do not wait for the double-precision units, which are the limit of these formulas.
#pragma once

#include "market/math/fast_math.h"

namespace sluice::market::fast {

// Coefficients that an instruction takes from constant memory. As literals each would be
// brought into registers by two instructions before its one use.
static __constant__ Terms<double, 9> device_exp_terms = Poly<double>::exp();
static __constant__ Terms<double, 7> device_log_terms = Poly<double>::log();
static __constant__ Terms<double, 18> device_tail_terms = Poly<double>::tail();

template <class T>
struct DeviceTables : Poly<T> {};
template <>
struct DeviceTables<double> {
  __device__ static const Terms<double, 9>& exp() { return device_exp_terms; }
  __device__ static const Terms<double, 7>& log() { return device_log_terms; }
  __device__ static const Terms<double, 18>& tail() { return device_tail_terms; }
};

struct DeviceMath {
  template <class T>
  using Tables = DeviceTables<T>;

  // max(x, lower) for x >= 0 or NaN. The lower half of the bits of `lower` must be zero.
  // Unsigned: the NaN that a GPU makes of 0 * infinity has its sign bit set.
  __device__ static double at_least(double x, double lower) {
    const auto high = static_cast<unsigned>(__double2hiint(x));
    const auto lowest = static_cast<unsigned>(__double2hiint(lower));
    return __hiloint2double(static_cast<int>(max(high, lowest)), __double2loint(x));
  }
  __device__ static double within(double x, double limit) {
    const int high = __double2hiint(x), size = min(high & 0x7fffffff, __double2hiint(limit));
    return __hiloint2double(size | (high & ~0x7fffffff), __double2loint(x));
  }
  __device__ static float at_least(float x, float lower) { return x < lower ? lower : x; }
  __device__ static float within(float x, float limit) { return fminf(fmaxf(x, -limit), limit); }

  __device__ static double reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double e = ::fma(-x, y, 1.0);
    return ::fma(y, ::fma(e, e, e), y);
  }
  // The square root of x >= 0; 0 for numbers under 1e-300.
  __device__ static double sqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(at_least(x, 1e-300)));
    const double half = 0.5 * y, h = x * y;
    const double e = ::fma(-h, half, 0.5);  // (1 - x y^2) / 2
    return ::fma(h, ::fma(1.5 * e, e, e), h);
  }
  // Above -infinity come the quiet NaNs whose sign bit is set.
  __device__ static bool negative(double x) {
    constexpr int kFirstNan = -0x80000;  // 0xfff80000
    return __double2hiint(x) < kFirstNan;
  }

  __device__ static float reciprocal(float x) {
    const float y = __frcp_rn(x);
    return y;
  }
  __device__ static float sqrt(float x) { return __fsqrt_rn(x); }
  __device__ static bool negative(float x) { return x < 0; }
};

}  // namespace sluice::market::fast
