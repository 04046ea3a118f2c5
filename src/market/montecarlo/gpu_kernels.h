// What the .cu files of this folder give; exists in CUDA builds only.
#pragma once

#include "compute/lane.h"
#include "compute/operation.h"

namespace sluice::market {

void asian_gpu(const compute::Call& call, compute::Lane& lane);
void paths_gpu(const compute::Call& call, compute::Lane& lane);

}  // namespace sluice::market
