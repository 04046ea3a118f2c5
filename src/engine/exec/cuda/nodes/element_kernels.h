// Kernels for element programs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/elementwise/element_program.h"

namespace sluice::engine::cuda {

// One of a program's inputs: which of the node's, and its shape as it is stretched.
struct ElementInput {
  std::size_t of;
  Shape shape;
};
// Null where it is too large or has types that programs do not take. Outputs [0] of `out`.
std::unique_ptr<Kernel> make_elements(std::string what, const ElementProgram& program,
                                      const std::vector<ElementInput>& inputs, const Shape& out,
                                      Context& context);

}  // namespace sluice::engine::cuda
