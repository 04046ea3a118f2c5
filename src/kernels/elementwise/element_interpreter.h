// An element program as a kernel that looks up each step: slow, for where nothing compiles.
#pragma once

#include "kernels/common/launch_args.h"
#include "kernels/elementwise/element_extent.h"
#include "kernels/elementwise/element_program.h"

namespace sluice::kernels::cuda {

inline constexpr int kMostElementValues = 48;

struct ElementTable {
  const ElementStep* steps;  // on the device
  int inputs, count, result;
  DType types[kMostElementInputs], output;
};

// Whether it knows all the steps.
bool goes_by_steps(const ElementProgram& program);

void run_steps(const ElementTable& table, const Extent& extent, const LaunchArgs& args,
               const void* const* inputs, void* output);

}  // namespace sluice::kernels::cuda
