// How many multiply-adds in double precision the CPU's vector units do: the limit of what
// calculates more than it reads.
#pragma once

#include "compute/workers.h"

namespace sluice::market {

// All threads do nothing else for some milliseconds; of all lanes, a second.
double multiply_adds_per_second(compute::Workers& workers);

}  // namespace sluice::market
