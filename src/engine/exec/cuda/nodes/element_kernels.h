// Kernels for element programs: compiled by NVRTC, or interpreted.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/elementwise/element_program.h"

namespace sluice::engine::cuda {

// An input of a program: the index of the node's input and the shape that is broadcast.
struct ElementInput {
  std::size_t of;
  Shape shape;
};
// Null if it is too large or has unsupported types. Output 0 has the shape `out`.
std::unique_ptr<Kernel> make_elements(std::string name, const ElementProgram& program,
                                      const std::vector<ElementInput>& inputs, const Shape& out,
                                      Context& context);

}  // namespace sluice::engine::cuda
