// The CUDA source of a kernel for an element program.
#pragma once

#include <string>
#include <vector>

#include "kernels/elementwise/element_program.h"

namespace sluice::kernels::cuda {

// How a thread addresses the elements of an input.
enum class ElementAccess : char {
  contiguous = 'a',  // same layout as the output
  scalar = 's',      // one element for all
  strided = 'p',     // by strides; contiguous along a thread's elements
  broadcast = 'b',   // by strides; one element for all of a thread's elements
};

struct ElementLayout {
  int rank;   // of Extent
  int width;  // neighbouring elements that a thread computes
  std::vector<ElementAccess> access;
};

// extern "C" __global__ void elementwise_fused(Extent, inputs..., output).
std::string element_source(const ElementProgram& program, const ElementLayout& layout);

}  // namespace sluice::kernels::cuda
