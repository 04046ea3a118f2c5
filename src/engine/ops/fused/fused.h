// Helpers of the fused operators' reference implementations, which compute in double.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "engine/ops/convert.h"
#include "engine/ops/op.h"

namespace sluice::engine {

inline double* doubles(const Tensor& tensor) { return static_cast<double*>(tensor.data()); }

// Throws if a present tensor has another shape; `what` names it in the error.
inline void require_shape(const Tensor& tensor, std::string_view what, const Shape& shape) {
  require(!tensor || tensor.shape() == shape, std::string(what) + " of shape " +
                                                  to_string(tensor.shape()) + " is needed as " +
                                                  to_string(shape));
}

// Input i, or none if omitted. Shapes are checked first, so that shape inference costs nothing;
// widen() converts to doubles afterwards.
inline Tensor fused_input(OpCall& call, std::size_t i) {
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

// The node's output and the doubles computed for it. Checks that the shape is valid.
struct DoubleResult {
  DoubleResult(OpCall& call, const Shape& shape) : out(make(call, shape)), y(DType::f64, shape) {}
  static Tensor make(OpCall& call, const Shape& shape) {
    checked_size(shape.dims());
    return call.output(0, call.input(0).dtype(), shape);
  }
  void store() const {
    const Tensor narrow = converted(y, out.dtype());
    if (out.bytes() > 0) std::memcpy(out.data(), narrow.data(), out.bytes());
  }
  Tensor out, y;
};

}  // namespace sluice::engine
