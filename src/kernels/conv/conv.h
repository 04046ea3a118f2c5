// Convolutions and pools on NHWC images, for shapes that cuDNN does not support or runs slowly.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/common/real_type.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// The window of a 2D convolution or pool, and the images it slides over.
struct SlidingWindow {
  int batch = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int rows = 1, columns = 1;  // of the kernel
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int top = 0, left = 0;  // padding
};

struct ConvCall {
  RealType type{};
  SlidingWindow window;
  int in = 0, out = 0, group = 1;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clip
  const void *x = nullptr, *w = nullptr;
  const void *bias = nullptr, *residual = nullptr;  // null: none
  void* y = nullptr;
};

// Any convolution, as an implicit GEMM. w is [out, rows, columns, in / group].
void enqueue_convolution(const ConvCall& call, CUstream_st* stream);

// Depthwise: groups of one input channel and out / in outputs. w is [rows, columns, out].
void enqueue_depthwise(const ConvCall& call, CUstream_st* stream);

enum class PoolType { f32, f16, bf16, u8, i8 };

struct PoolCall {
  PoolType type{};  // u8 and i8: max pooling only
  SlidingWindow window;
  int channels = 0;
  bool maximum = false;         // max pooling; else average pooling
  bool counts_padding = false;  // count_include_pad
  const void* x = nullptr;
  void* y = nullptr;
};

void enqueue_pool(const PoolCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
