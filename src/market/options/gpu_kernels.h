// Functions of the .cu files of this folder, in CUDA builds only.
#pragma once

#include "compute/launch_context.h"
#include "compute/operation.h"

namespace sluice::market {

void black_scholes_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void black_scholes_gpu_float(const compute::Call& call, compute::LaunchContext& context);
void greeks_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void greeks_gpu_float(const compute::Call& call, compute::LaunchContext& context);
void implied_volatility_gpu(const compute::Call& call, compute::LaunchContext& context);
void binomial_gpu(const compute::Call& call, compute::LaunchContext& context);
void american_gpu(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
