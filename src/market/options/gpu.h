// The CUDA side of the option operations; every pointer is null in a build without CUDA.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

using OnGpu = void (*)(const compute::Call&, compute::LaunchContext&);

struct OptionsOnGpu {
  OnGpu black_scholes_double = nullptr, black_scholes_float = nullptr;
  OnGpu greeks_double = nullptr, greeks_float = nullptr;
  OnGpu implied_volatility = nullptr, binomial = nullptr, american = nullptr;
};

OptionsOnGpu options_on_gpu();

}  // namespace sluice::market
