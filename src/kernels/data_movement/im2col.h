// im2col: the windows of a convolution as the rows of a GEMM operand; and space-to-depth.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace sluice::kernels::cuda {

// The A operand of a convolution as a GEMM: one row of `row_bytes` bytes for each output pixel, in
// the order [kernel_height, kernel_width, channels], filled up with zeros. It describes both an
// explicit im2col (enqueue_im2col() writes rows to `to`) and an implicit one (the kernel reads x
// itself). A matrix is an image of one column under a kernel of 1 x 1. Elements are bytes: channels
// of f16 count twice.
struct Im2col {
  const void* x = nullptr;  // [batch, height, width, channels] of bytes
  void* to = nullptr;
  std::int64_t first = 0, count = 0;  // rows to write
  std::int64_t row_bytes = 0;
  int height = 1, width = 1, channels = 0;  // of x
  int pixel_stride = 0;                     // bytes; less than channels where pixels overlap
  int out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride_y = 1, stride_x = 1;
  int dilation_y = 1, dilation_x = 1;
  int pad_top = 0, pad_left = 0;
  unsigned char pad_value = 0;  // the zero point of x
  unsigned char sign_flip = 0;  // 128: writes u8 as i8, 128 less
};
void enqueue_im2col(const Im2col& rows, CUstream_st* stream);
// Whether the rows are x itself: a 1 x 1 kernel with stride 1, or a matrix.
inline bool is_pointwise(const Im2col& r) {
  return r.kernel_height * r.kernel_width == 1 && r.stride_y == 1 && r.stride_x == 1 &&
         r.out_height == r.height && r.out_width == r.width;
}

// Space-to-depth: block_height x block_width neighbouring pixels become one, with their channels
// one after the other and zeros up to a multiple of 16. A strided convolution over few channels
// becomes one of stride 1 over many.
struct SpaceToDepthCall {
  const void* x = nullptr;  // [batch, height, width, channels] of bytes
  void* to = nullptr;       // [batch, out_height, out_width, out_channels]
  std::int64_t batch = 0;
  int height = 1, width = 1, channels = 0;
  int block_height = 1, block_width = 1;
  int pad_top = 0, pad_left = 0;
  int out_height = 1, out_width = 1, out_channels = 0;
  unsigned char pad_value = 0;  // the zero point of x
};
void enqueue_space_to_depth(const SpaceToDepthCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
