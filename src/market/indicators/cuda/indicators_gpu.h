// The GPU side of a batch for its two element types.
#pragma once

#include "compute/launch_context.h"
#include "compute/operation.h"
#include "market/indicators/plan/segments.h"

namespace sluice::market {

void indicators_gpu_double(const compute::Call& call, compute::LaunchContext& context);
void indicators_gpu_float(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
