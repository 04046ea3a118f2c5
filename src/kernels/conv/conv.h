// Our own convolutions and pools on images [batch, height, width, channels], for what the
// libraries do not take or do slowly.
#pragma once

#include <cstdint>

#include "kernels/common/activation.h"
#include "kernels/common/real_type.h"

struct CUstream_st;

namespace sluice::kernels::cuda {

// A window that slides over images.
struct Sliding {
  int batch = 0, height = 0, width = 0, out_height = 0, out_width = 0;
  int rows = 1, columns = 1;  // of the window
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int top = 0, left = 0;  // padding
};

struct ConvCall {
  RealType type{};
  Sliding window;
  int in = 0, out = 0, group = 1;
  Activation activation = Activation::none;
  float low = 0, high = 0;  // of clip
  const void *x = nullptr, *w = nullptr;
  const void *bias = nullptr, *residual = nullptr;  // null: none
  void* y = nullptr;
};

// Any convolution. w as [out, rows, columns, in / group].
void enqueue_convolution(const ConvCall& call, CUstream_st* stream);

// Groups of one channel in and out / in out. w as [rows, columns, out].
void enqueue_depthwise(const ConvCall& call, CUstream_st* stream);

enum class PoolType { f32, f16, bf16, u8, i8 };

struct PoolCall {
  PoolType type{};  // of bytes only the maximum
  Sliding window;
  int channels = 0;
  bool maximum = false;         // else the mean
  bool counts_padding = false;  // in the mean
  const void* x = nullptr;
  void* y = nullptr;
};

void enqueue_pool(const PoolCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
