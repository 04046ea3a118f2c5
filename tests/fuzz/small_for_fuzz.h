// Low limits on the cost of one run of an untrusted model, so that a fuzzer tries many. They are
// the limits that programs have, only lower.
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/session/session.h"

namespace sluice::fuzz {

inline constexpr std::size_t kMemory = 4u << 20;

inline engine::SessionOptions small_session() { return {.memory = kMemory, .nodes = 2000}; }

// Ones: few indices, loops and shapes refuse them.
inline Tensor ones(DType dtype, const Shape& shape) {
  constexpr std::int64_t kMaxElements = 4096;  // the rest is the model's own doing
  require(checked_size(shape.dims()) <= kMaxElements, "an input too large to try");
  const Tensor tensor(dtype, shape);
  const auto fill = [&](auto one) { std::ranges::fill(tensor.values<decltype(one)>(), one); };
  switch (dtype) {
    case DType::string: break;
    case DType::f32: fill(1.0f); break;
    case DType::i32: fill(std::int32_t{1}); break;
    case DType::i64: fill(std::int64_t{1}); break;
    default: std::memset(tensor.data(), 1, tensor.bytes());
  }
  return tensor;
}

}  // namespace sluice::fuzz
