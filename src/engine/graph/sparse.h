// Tensors that a file stores by their elements that are not zero.
#pragma once

#include "formats/onnx/model.h"

namespace sluice::engine {

// All elements. Throws invalid_argument where an index is outside, or there are too many.
Tensor dense(const onnx::SparseTensor& sparse);

}  // namespace sluice::engine
