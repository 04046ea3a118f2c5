// The CUDA side of all operations, by pointers: nothing else in this module asks whether the build
// has CUDA. gpu_operations_on.cc or gpu_operations_off.cc is compiled.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

using GpuFunction = void (*)(const compute::Call&, compute::LaunchContext&);

// Every pointer is null in a build without CUDA.
struct GpuOperations {
  GpuFunction indicators_double = nullptr, indicators_float = nullptr;
  GpuFunction black_scholes_double = nullptr, black_scholes_float = nullptr;
  GpuFunction greeks_double = nullptr, greeks_float = nullptr;
  GpuFunction implied_volatility = nullptr, binomial = nullptr, american = nullptr;
  GpuFunction asian = nullptr, paths = nullptr;
  GpuFunction metrics = nullptr, tail = nullptr, covariance = nullptr;
  GpuFunction sweep = nullptr;
  GpuFunction curand_asian = nullptr;  // a peer's kernel, for benchmarks
};

GpuOperations gpu_operations();

// Defined in .cu files, in CUDA builds only.
void indicators_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void indicators_gpu_float(const compute::Call& call, compute::LaunchContext& context);
void black_scholes_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void black_scholes_gpu_float(const compute::Call& call, compute::LaunchContext& context);
void greeks_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void greeks_gpu_float(const compute::Call& call, compute::LaunchContext& context);
void implied_volatility_gpu(const compute::Call& call, compute::LaunchContext& context);
void binomial_gpu(const compute::Call& call, compute::LaunchContext& context);
void american_gpu(const compute::Call& call, compute::LaunchContext& context);
void asian_gpu(const compute::Call& call, compute::LaunchContext& context);
void paths_gpu(const compute::Call& call, compute::LaunchContext& context);
void metrics_gpu(const compute::Call& call, compute::LaunchContext& context);
void tail_gpu(const compute::Call& call, compute::LaunchContext& context);
void covariance_gpu(const compute::Call& call, compute::LaunchContext& context);
void sweep_gpu(const compute::Call& call, compute::LaunchContext& context);
void curand_asian_gpu(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
