// Functions of the .cu files of this folder, in CUDA builds only.
#pragma once

#include "compute/launch_context.h"
#include "compute/operation.h"

namespace sluice::market {

void metrics_gpu(const compute::Call& call, compute::LaunchContext& context);
void tail_gpu(const compute::Call& call, compute::LaunchContext& context);
void covariance_gpu(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
