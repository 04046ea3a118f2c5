// What follows a product or a convolution where the library does not do it itself.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/common/real_type.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// x = activation(x + bias + before) + behind, in place; null: left out.
struct After {
  RealType type{};
  void* x = nullptr;  // rows * n
  std::int64_t rows = 0, n = 0;
  const void* bias = nullptr;    // n
  const void* before = nullptr;  // rows * n, as behind
  const void* behind = nullptr;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clip
};

void enqueue(const After& after, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
