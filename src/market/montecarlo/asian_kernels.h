#pragma once

#include "compute/operation.h"
#include "compute/workers.h"

namespace sluice::market {

// The CPU's side of asian_operation().
void asian_cpu(const compute::Call& call, compute::Workers& workers);

}  // namespace sluice::market
