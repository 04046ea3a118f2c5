// What the .cu files of this folder give; exists in CUDA builds only.
#pragma once

#include "compute/lane.h"
#include "compute/operation.h"

namespace sluice::market {

void metrics_gpu(const compute::Call& call, compute::Lane& lane);
void tail_gpu(const compute::Call& call, compute::Lane& lane);
void covariance_gpu(const compute::Call& call, compute::Lane& lane);

}  // namespace sluice::market
