// Every operation of the module: what a worker process must know by name.
#pragma once

#include <span>

#include "compute/operation.h"

namespace sluice::market {

std::span<const compute::Operation* const> operations();

}  // namespace sluice::market
