// The CUDA side of the risk operations; every pointer is null in a build without CUDA.
#pragma once

#include "compute/operation.h"

namespace sluice::market {

struct RiskOnGpu {
  void (*metrics)(const compute::Call&, compute::LaunchContext&) = nullptr;
  void (*tail)(const compute::Call&, compute::LaunchContext&) = nullptr;
  void (*covariance)(const compute::Call&, compute::LaunchContext&) = nullptr;
};

RiskOnGpu risk_on_gpu();

}  // namespace sluice::market
