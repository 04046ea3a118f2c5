#include "kernels/common/activation_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace sluice::kernels {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 9> kActivations = {
    "none", "relu", "gelu", "gelu_tanh", "tanh", "sigmoid", "silu", "hard_swish", "clip"};

}  // namespace

std::string_view to_string(Activation activation) {
  return kActivations[static_cast<std::size_t>(activation)];
}

std::optional<Activation> activation_named(std::string_view name) {
  for (std::size_t i = 0; i < kActivations.size(); ++i)
    if (kActivations[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

double ActivationParams::operator()(double x) const {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x * std::numbers::sqrt2 / 2));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::tanh: return std::tanh(x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::hard_swish: return x * std::max(0.0, std::min(1.0, x / 6 + 0.5));
    case Activation::clip: {
      const double above = x < static_cast<double>(low) ? static_cast<double>(low) : x;
      return above > static_cast<double>(high) ? static_cast<double>(high) : above;
    }
  }
  return x;
}

}  // namespace sluice::kernels
