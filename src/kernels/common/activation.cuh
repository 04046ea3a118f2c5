// Activation functions on the device.
#pragma once

#include "kernels/common/activation.h"

namespace sluice::kernels::cuda {

template <Activation kActivation>
struct ActivationKind {
  static constexpr Activation value = kActivation;
};

// GELU for results of 16 bits or fewer, with half the instructions of erff(): the error is at most
// 3e-5, or 5e-5 of the result. For |x| below kEnd it is x * (1 / 2 + x * p(x * x)).
__device__ inline float gelu_low_precision(float x) {
  constexpr float kEnd = 4.5f;
  const float above = x < -kEnd ? -kEnd : x;  // NaN propagates
  const float within = fminf(above, kEnd), square = within * within;
  float sum = -1.39998375e-12f;
  for (const float next :
       {1.69722014e-10f, -9.19339449e-9f, 2.95881563e-7f, -6.36513914e-6f, 9.78703465e-5f,
        -1.12267316e-3f, 9.83316917e-3f, -6.63370341e-2f, 0.39888379f})
    sum = sum * square + next;
  return above * (within * sum + 0.5f);
}

// GELU in fewer instructions yet, with an error of at most 2.6e-5; -infinity becomes NaN. Phi(x) is
// 1 / 2 + x * p(x * x - kCenter), saturated to [0, 1], which the last FMA does by itself: p grows
// beyond |x| = 4.4, where it was fitted. Its argument is centered so that terms do not cancel.
__device__ inline float gelu_saturating(float x) {
  constexpr float kCenter = 9.68000031f;
  const float square = x * x - kCenter;
  float sum = 3.57257175e-11f;
  for (const float next : {-9.89980542e-10f, 1.33555655e-8f, -1.87983446e-7f, 3.05258982e-6f,
                           -4.41978809e-5f, 5.8963825e-4f, -8.12110677e-3f, 0.160404414f})
    sum = sum * square + next;
  return x * __saturatef(x * sum + 0.5f);  // NaN saturates to 0 and comes back with x
}

// gelu_tanh as x / (1 + exp(-2 z)), with an error of a few f32 roundings.
__device__ inline float gelu_tanh_by_exp(float x) {
  return __fdividef(x, 1 + __expf(x * (-0.0713548163f * x * x - 1.59576912f)));
}

template <bool kLowPrecision = false>
__device__ float activated(float x, Activation activation, float low, float high) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;  // NaN propagates
    case Activation::gelu:
      if constexpr (kLowPrecision) return gelu_low_precision(x);
      return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
    case Activation::gelu_tanh:
      return 0.5f * x * (1 + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::tanh: return tanhf(x);
    case Activation::sigmoid: return 1 / (1 + expf(-x));
    case Activation::silu: return x / (1 + expf(-x));
    case Activation::hard_swish: return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
    case Activation::clip: return x < low ? low : x > high ? high : x;
  }
  return x;
}

// Applies the activation to an array; the switch is taken once.
template <bool kLowPrecision = false, int N>
__device__ void activate(float (&x)[N], Activation activation, float low, float high) {
  const auto each = [&](auto kind) {
#pragma unroll
    for (float& one : x) one = activated<kLowPrecision>(one, decltype(kind)::value, low, high);
  };
  switch (activation) {
    case Activation::none: return;
    case Activation::relu: return each(ActivationKind<Activation::relu>());
    case Activation::gelu: return each(ActivationKind<Activation::gelu>());
    case Activation::gelu_tanh: return each(ActivationKind<Activation::gelu_tanh>());
    case Activation::tanh: return each(ActivationKind<Activation::tanh>());
    case Activation::sigmoid: return each(ActivationKind<Activation::sigmoid>());
    case Activation::silu: return each(ActivationKind<Activation::silu>());
    case Activation::hard_swish: return each(ActivationKind<Activation::hard_swish>());
    case Activation::clip: return each(ActivationKind<Activation::clip>());
  }
}

}  // namespace sluice::kernels::cuda
