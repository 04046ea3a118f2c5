// A constant in the layout that a CPU kernel reads.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace sluice::engine {

struct PackedConstant {
  Tensor constant;
  std::string layout;
  Tensor result;
};

}  // namespace sluice::engine
