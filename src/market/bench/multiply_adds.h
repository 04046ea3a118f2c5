// The rate of double precision multiply-adds of the CPU's vector units: the limit of compute-bound
// work.
#pragma once

#include "compute/workers.h"

namespace sluice::market {

// Multiply-adds a second of all lanes and threads, measured over some milliseconds.
double multiply_adds_per_second(compute::Workers& workers);

}  // namespace sluice::market
