// Activations of single numbers on the device.
#pragma once

#include "engine/activation.h"

namespace sluice::engine::cuda {

template <Activation kActivation>
struct ActivationKind {
  static constexpr Activation value = kActivation;
};

__device__ inline float activated(float x, Activation activation, float low, float high) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;  // NaN stays
    case Activation::gelu: return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
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

// Of many: what to do is asked once, so that the way of each is short.
template <int N>
__device__ void activate(float (&x)[N], Activation activation, float low, float high) {
  const auto each = [&](auto kind) {
#pragma unroll
    for (float& one : x) one = activated(one, decltype(kind)::value, low, high);
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

}  // namespace sluice::engine::cuda
