// What the operators that fusing makes share: they compute in double.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "engine/ops/convert.h"
#include "engine/ops/op.h"

namespace sluice::engine {

inline double* doubles(const Tensor& tensor) { return static_cast<double*>(tensor.data()); }

// Throws where a tensor that is given has another shape; `what` names it.
inline void require_shape(const Tensor& tensor, std::string_view what, const Shape& shape) {
  require(!tensor || tensor.shape() == shape, std::string(what) + " of shape " +
                                                  to_string(tensor.shape()) + " is needed as " +
                                                  to_string(shape));
}

// Input i as it is; none where it is left out. Shapes are looked at first, so that asking what a
// node makes costs nothing; widen() then makes doubles.
inline Tensor given(OpCall& call, std::size_t i) {
  if (!call.has(i)) return {};
  require(call.input(i).dtype() == call.input(0).dtype(), "inputs of different element types");
  return call.input(i);
}

template <class... Tensors>
void widen(Tensors&... tensors) {
  const auto one = [](Tensor& tensor) {
    if (tensor) tensor = converted(tensor, DType::f64);
  };
  (one(tensors), ...);
}

// The node's output, and what is computed for it, if there can be one of this shape.
struct DoubleResult {
  DoubleResult(OpCall& call, const Shape& shape) : out(make(call, shape)), y(DType::f64, shape) {}
  static Tensor make(OpCall& call, const Shape& shape) {
    checked_size(shape.dims());
    return call.output(0, call.input(0).dtype(), shape);
  }
  void give() const {
    const Tensor narrow = converted(y, out.dtype());
    if (out.bytes() > 0) std::memcpy(out.data(), narrow.data(), out.bytes());
  }
  Tensor out, y;
};

}  // namespace sluice::engine
