// What the operators that fusing makes share: they compute in double.
#pragma once

#include <string>
#include <string_view>

#include "engine/op.h"

namespace sluice::engine {

inline double* doubles(const Tensor& tensor) { return static_cast<double*>(tensor.data()); }

// Throws where a tensor that is given has another shape; `what` names it.
inline void require_shape(const Tensor& tensor, std::string_view what, const Shape& shape) {
  require(!tensor || tensor.shape() == shape, std::string(what) + " of shape " +
                                                  to_string(tensor.shape()) + " is needed as " +
                                                  to_string(shape));
}

}  // namespace sluice::engine
