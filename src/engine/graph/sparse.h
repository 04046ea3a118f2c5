// Sparse tensors of ONNX files.
#pragma once

#include "formats/onnx/model.h"

namespace sluice::engine {

// Converts to a dense tensor. Throws invalid_argument if an index is out of range or the tensor is
// too large.
Tensor dense(const onnx::SparseTensor& sparse);

}  // namespace sluice::engine
