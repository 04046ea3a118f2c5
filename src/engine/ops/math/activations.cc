// Activation functions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

template <class W>
W sigmoid_of(W x) {
  if (x >= 0) return W(1) / (W(1) + std::exp(-x));
  const W e = std::exp(x);  // does not overflow
  return e / (W(1) + e);
}

template <class W>
W softplus_of(W x) {
  return std::max(x, W(0)) + std::log1p(std::exp(-std::fabs(x)));
}

void relu(OpCall& call) {
  const Tensor& in = call.input(0);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_numbers(in.dtype(), [&]<class T>() {
    map<T, T>(call, in, out, [](auto x) { return x < 0 ? decltype(x)(0) : x; });
  });
}

void leaky_relu(OpCall& call) {
  map_reals(call, [alpha = call.attributes().real("alpha", 0.01f)](auto x) {
    return x < 0 ? static_cast<decltype(x)>(alpha) * x : x;
  });
}

void thresholded_relu(OpCall& call) {
  map_reals(call, [alpha = call.attributes().real("alpha", 1.0f)](auto x) {
    using W = decltype(x);
    return x > static_cast<W>(alpha) || std::isnan(x) ? x : W(0);
  });
}

void elu(OpCall& call) {
  map_reals(call, [alpha = call.attributes().real("alpha", 1.0f)](auto x) {
    return x < 0 ? static_cast<decltype(x)>(alpha) * std::expm1(x) : x;
  });
}

void celu(OpCall& call) {
  const float alpha = call.attributes().real("alpha", 1.0f);
  require(alpha != 0, "alpha must not be 0");
  map_reals(call, [alpha](auto x) {
    const auto a = static_cast<decltype(x)>(alpha);
    return std::max(x, decltype(x)(0)) + std::min(decltype(x)(0), a * std::expm1(x / a));
  });
}

// Opset 1 specified the constants with fewer digits.
void selu(OpCall& call) {
  const bool first = call.version() < 6;
  const float alpha = call.attributes().real("alpha", first ? 1.6732f : 1.67326319217681884765625f);
  const float gamma = call.attributes().real("gamma", first ? 1.0507f : 1.05070102214813232421875f);
  map_reals(call, [=](auto x) {
    using W = decltype(x);
    return static_cast<W>(gamma) * (x > 0 ? x : static_cast<W>(alpha) * std::expm1(x));
  });
}

void gelu(OpCall& call) {
  const std::string how = call.attributes().string("approximate", "none");
  require(how == "none" || how == "tanh", "approximate '" + how + "' is not known");
  if (how == "none")
    return map_reals(call, [](auto x) {
      using W = decltype(x);
      return W(0.5) * x * (W(1) + std::erf(x * static_cast<W>(std::numbers::sqrt2 / 2)));
    });
  map_reals(call, [](auto x) {
    using W = decltype(x);
    const W inner = static_cast<W>(std::sqrt(2 / std::numbers::pi)) * (x + W(0.044715) * x * x * x);
    return W(0.5) * x * (W(1) + std::tanh(inner));
  });
}

void hard_sigmoid(OpCall& call) {
  const float alpha = call.attributes().real("alpha", 0.2f);
  const float beta = call.attributes().real("beta", 0.5f);
  map_reals(call, [=](auto x) {
    using W = decltype(x);
    return std::clamp(static_cast<W>(alpha) * x + static_cast<W>(beta), W(0), W(1));  // keeps NaN
  });
}

void hard_swish(OpCall& call) {
  map_reals(call, [](auto x) {
    using W = decltype(x);
    return x * std::max(W(0), std::min(W(1), x / W(6) + W(0.5)));
  });
}

void mish(OpCall& call) {
  map_reals(call, [](auto x) { return x * std::tanh(softplus_of(x)); });
}

void sigmoid(OpCall& call) {
  map_reals(call, [](auto x) { return sigmoid_of(x); });
}

void softplus(OpCall& call) {
  map_reals(call, [](auto x) { return softplus_of(x); });
}

void softsign(OpCall& call) {
  map_reals(call, [](auto x) { return x / (decltype(x)(1) + std::fabs(x)); });
}

void swish(OpCall& call) {
  map_reals(call, [alpha = call.attributes().real("alpha", 1.0f)](auto x) {
    return x * sigmoid_of(static_cast<decltype(x)>(alpha) * x);
  });
}

// SwiGLU: swish of the first input times the second.
void swiglu(OpCall& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  require(a.dtype() == b.dtype(), "inputs of two element types");
  const float alpha = call.attributes().real("alpha", 1.0f);
  const Tensor out = call.output(0, a.dtype(), broadcast(a.shape(), b.shape()));
  visit_reals(a.dtype(), [&]<class T>() {
    using W = Wide<T>;
    map2<T, T, T>(a, b, out,
                  [w = static_cast<W>(alpha)](W x, W y) { return T(x * sigmoid_of(w * x) * y); });
  });
}

void shrink(OpCall& call) {
  const Tensor& in = call.input(0);
  const float bias = call.attributes().real("bias", 0.0f);
  const float lambda = call.attributes().real("lambd", 0.5f);
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_numbers(in.dtype(), [&]<class T>() {
    using C = std::conditional_t<std::is_integral_v<T>, double, Wide<T>>;
    const auto soft = static_cast<C>(bias), hard = static_cast<C>(lambda);
    map<T, T>(call, in, out, [=](auto x) {
      const auto value = static_cast<C>(x);
      const C result = value < -hard ? value + soft : value > hard ? value - soft : C(0);
      if constexpr (std::is_integral_v<T>)
        return to_integer(result);
      else
        return result;
    });
  });
}

// The slope broadcasts to the input; before opset 7 it was one value, or one per channel.
void prelu(OpCall& call) {
  const Tensor& in = call.input(0);
  Tensor slope = call.input(1);
  require(in.dtype() == slope.dtype(), "inputs of two element types");
  if (call.version() < 7 && slope.rank() == 1 && in.rank() > 1) {
    Shape channels = slope.shape();
    while (channels.rank() < in.rank() - 1) channels.push_back(1);
    slope = slope.reshaped(channels);
  }
  require(broadcast(in.shape(), slope.shape()) == in.shape(),
          "slope of shape " + to_string(slope.shape()) + " does not broadcast to the input's " +
              to_string(in.shape()));
  const Tensor out = call.output(0, in.dtype(), in.shape());
  visit_types<float, double, Half, BFloat16, std::int32_t, std::int64_t, std::uint32_t,
              std::uint64_t>(in.dtype(), [&]<class T>() {
    using W = Wide<T>;
    map2<T, T, T>(in, slope, out, [](W x, W s) {
      if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        return x < 0 ? static_cast<T>(static_cast<U>(x) * static_cast<U>(s)) : x;
      } else {
        return T(x < 0 ? x * s : x);
      }
    });
  });
}

constexpr Types kWideNumbers = kReals | Types{DType::i32, DType::i64, DType::u32, DType::u64};

constexpr Op kActivationOps[] = {
    {"Celu", 12, kReals, celu},
    {"Elu", 1, kReals, elu},
    {"Gelu", 20, kReals, gelu},
    {"HardSigmoid", 1, kReals, hard_sigmoid},
    {"HardSwish", 14, kReals, hard_swish},
    {"LeakyRelu", 1, kReals, leaky_relu},
    {"Mish", 18, kReals, mish},
    {"PRelu", 1, kWideNumbers, prelu},
    {"Relu", 1, kNumbers, relu},
    {"Selu", 1, kReals, selu},
    {"Shrink", 9, kNumbers, shrink},
    {"Sigmoid", 1, kReals, sigmoid},
    {"Softplus", 1, kReals, softplus},
    {"Softsign", 1, kReals, softsign},
    {"SwiGLU", 28, kReals, swiglu},
    {"Swish", 24, kReals, swish},
    {"ThresholdedRelu", 10, kReals, thresholded_relu},
};

}  // namespace

std::span<const Op> activation_ops() { return kActivationOps; }

}  // namespace sluice::engine
