// The CUDA side of the simulations; every pointer is null in a build without CUDA.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

struct MonteCarloOnGpu {
  void (*asian)(const compute::Call&, compute::LaunchContext&) = nullptr;
  void (*paths)(const compute::Call&, compute::LaunchContext&) = nullptr;
};

MonteCarloOnGpu montecarlo_on_gpu();

}  // namespace sluice::market
