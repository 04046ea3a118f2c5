// Runs an element program with a kernel that interprets it: slow, for where
// NVRTC is missing.
#pragma once

#include "kernels/common/launch_args.h"
#include "kernels/elementwise/element_extent.h"
#include "kernels/elementwise/element_program.h"

namespace sluice::kernels::cuda {

inline constexpr int kMaxElementValues = 48;

struct ElementTable {
  const ElementInstruction* instructions;  // on the device
  int inputs, count, result;
  DType types[kMaxElementInputs], output;
};

// Whether it implements all instructions of the program.
bool element_interpreter_supports(const ElementProgram& program);

void run_element_interpreter(const ElementTable& table, const Extent& extent,
                             const LaunchArgs& args, const void* const* inputs, void* output);

}  // namespace sluice::kernels::cuda
