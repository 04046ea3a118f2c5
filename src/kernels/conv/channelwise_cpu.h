// What kernels over images [batch, height, width, channels] share: the window they slide, and
// loops with the channels in vectors.
#pragma once

#include <cstdint>

#include "kernels/common/epilogue.h"
#include "kernels/conv/window.h"

namespace sluice::kernels::cpu {

struct ImageWindow {
  std::int64_t batch, channels;
  Window::Axis high, wide;

  std::int64_t outs() const { return batch * high.out * wide.out; }  // pixels of the result
};

// A kernel per channel: its values times what it sees, or the largest of those, or their mean.
struct ChannelWise {
  enum class Kind { sum_of_products, largest, mean };
  Kind kind;
  ImageWindow window;
  const float* weights = nullptr;  // of products: [rows, columns, channels]
  const float* bias = nullptr;     // of products: [channels]
  Epilogue epilogue{};             // of products
  bool counts_padding = false;     // of a mean
};

// One row of results (of batch * high.out). `residual` (null: none) is as large as the result.
void run(const ChannelWise& what, std::int64_t row, const float* x, const float* residual,
         float* y);

}  // namespace sluice::kernels::cpu
