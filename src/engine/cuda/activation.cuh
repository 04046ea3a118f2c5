// Activations of single numbers on the device.
#pragma once

#include "engine/activation.h"

namespace sluice::engine::cuda {

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

}  // namespace sluice::engine::cuda
