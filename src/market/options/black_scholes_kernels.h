// The CPU's loops over batches of options.
#pragma once

#include "compute/operation.h"
#include "compute/workers.h"

namespace sluice::market {

struct OptionSign {
  double w;  // 1 for calls, -1 for puts
};

template <class T>
void black_scholes_cpu(const compute::Call& call, compute::Workers& workers);
template <class T>
void greeks_cpu(const compute::Call& call, compute::Workers& workers);

}  // namespace sluice::market
