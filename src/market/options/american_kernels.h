// American options on the CPU: blocks of options with one option per SIMD lane.
#pragma once

#include "compute/operation.h"
#include "compute/workers.h"

namespace sluice::market {

// Takes the columns of options and formula::AmericanTables, as american_operation() does.
void american_cpu(const compute::Call& call, compute::Workers& workers);

}  // namespace sluice::market
