// The source of a kernel for an element program.
#pragma once

#include <string>
#include <vector>

#include "kernels/elementwise/element_program.h"

namespace sluice::kernels::cuda {

// How the elements of an input are found.
enum class ElementReach : char {
  along = 'a',   // it lies as the output does
  single = 's',  // one element for all
  packed = 'p',  // by steps; neighbours of the output are neighbours here
  spread = 'b',  // by steps; one element for neighbours of the output
};

struct ElementLayout {
  int rank;   // of Extent
  int width;  // elements that a thread makes, neighbours
  std::vector<ElementReach> reach;
};

// extern "C" __global__ void elements(Extent, inputs..., output).
std::string element_source(const ElementProgram& program, const ElementLayout& layout);

}  // namespace sluice::kernels::cuda
