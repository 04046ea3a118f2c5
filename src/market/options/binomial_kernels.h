// The CPU's side of binomial_operation().
#pragma once

#include "compute/operation.h"
#include "compute/workers.h"

namespace sluice::market {

struct TreeParameters {
  int call, american, steps;
};

void binomial_cpu(const compute::Call& call, compute::Workers& workers);

}  // namespace sluice::market
