// The GPU's side of a batch: what batch.cu needs to know, and its two element types.
#pragma once

#include "compute/lane.h"
#include "compute/operation.h"
#include "market/indicators/lines.h"

namespace sluice::market {

void batch_doubles(const compute::Call& call, compute::Lane& lane);
void batch_floats(const compute::Call& call, compute::Lane& lane);

}  // namespace sluice::market
