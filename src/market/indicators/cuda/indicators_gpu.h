// The GPU side of a batch for its two element types.
#pragma once

#include "compute/launch_context.h"
#include "compute/operation.h"
#include "market/indicators/plan/segments.h"

namespace sluice::market {

void batch_doubles(const compute::Call& call, compute::LaunchContext& context);
void batch_floats(const compute::Call& call, compute::LaunchContext& context);

}  // namespace sluice::market
