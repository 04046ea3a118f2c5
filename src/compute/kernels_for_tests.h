// Operations with real kernels, one of them bad, for tests on a GPU.
#pragma once

#include "compute/operation.h"

namespace sluice::compute {

struct PlusParameters {
  double addend;
};
extern const Operation kPlusOnGpu;    // out = in + addend
extern const Operation kFaultOnGpu;   // the same on the CPU; on the GPU it writes out of bounds
extern const Operation kGreedyOnGpu;  // the same; on the GPU it wants scratch of 1 MiB an item

}  // namespace sluice::compute
