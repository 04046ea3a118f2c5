// Depthwise convolution, max pooling and average pooling over NHWC images on the CPU, with the
// channels in SIMD vectors.
#pragma once

#include <cstdint>

#include "kernels/common/activation_params.h"
#include "kernels/conv/window.h"

namespace sluice::kernels::cpu {

struct ImageWindow {
  std::int64_t batch, channels;
  Window::Axis high, wide;

  std::int64_t outs() const { return batch * high.out * wide.out; }  // output pixels
};

// An operator that works on each channel by itself.
struct ChannelWise {
  enum class Kind { depthwise, max_pool, average_pool };
  Kind kind;
  ImageWindow window;
  const float* weights = nullptr;  // of depthwise: [rows, columns, channels]
  const float* bias = nullptr;     // of depthwise: [channels]
  ActivationParams activation{};   // of depthwise
  bool counts_padding = false;     // count_include_pad of average_pool
};

// Computes output row `row` of batch * high.out. `residual` (null: none) is as large as the result.
void run(const ChannelWise& what, std::int64_t row, const float* x, const float* residual,
         float* y);

}  // namespace sluice::kernels::cpu
