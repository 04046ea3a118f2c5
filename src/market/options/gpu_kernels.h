// What the .cu files of this folder give; exists in CUDA builds only.
#pragma once

#include "compute/lane.h"
#include "compute/operation.h"

namespace sluice::market {

void black_scholes_gpu_double(const compute::Call& call, compute::Lane& lane);
void black_scholes_gpu_float(const compute::Call& call, compute::Lane& lane);
void greeks_gpu_double(const compute::Call& call, compute::Lane& lane);
void greeks_gpu_float(const compute::Call& call, compute::Lane& lane);
void implied_volatility_gpu(const compute::Call& call, compute::Lane& lane);
void binomial_gpu(const compute::Call& call, compute::Lane& lane);
void american_gpu(const compute::Call& call, compute::Lane& lane);

}  // namespace sluice::market
