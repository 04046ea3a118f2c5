// How an NVIDIA GPU divides and takes roots quickly: the approximate instruction (good to
// 2^-22) and one step of third order, instead of the library's exactly rounded routines.
#pragma once

#include "market/options/fast_math.h"

namespace sluice::market::fast {

struct DeviceMath {
  __device__ static double reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double e = ::fma(-x, y, 1.0);
    return ::fma(y, ::fma(e, e, e), y);
  }
  // Of x >= 0; 0 for numbers under 1e-300.
  __device__ static double sqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x < 1e-300 ? 1e-300 : x));
    const double half = 0.5 * y, h = x * y;
    const double e = ::fma(-h, half, 0.5);  // (1 - x y^2) / 2
    return ::fma(h, ::fma(1.5 * e, e, e), h);
  }
  __device__ static bool negative(double x) { return __double2hiint(x) < 0; }

  __device__ static float reciprocal(float x) {
    const float y = __frcp_rn(x);
    return y;
  }
  __device__ static float sqrt(float x) { return __fsqrt_rn(x); }
  __device__ static bool negative(float x) { return x < 0; }
};

}  // namespace sluice::market::fast
