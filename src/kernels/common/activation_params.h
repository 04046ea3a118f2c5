// An activation with its parameters: what an epilogue or a chain applies to each value.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/common/activation.h"

namespace sluice::kernels {

struct ActivationParams {
  Activation activation = Activation::none;
  float low = 0, high = 0;  // bounds of clip

  double operator()(double x) const;
  float operator()(float x) const { return static_cast<float>((*this)(static_cast<double>(x))); }
};

std::string_view to_string(Activation activation);
std::optional<Activation> activation_named(std::string_view name);

}  // namespace sluice::kernels
