// The windows that a convolution sees as the rows of a GEMM (im2col), and space-to-depth.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace sluice::kernels::cuda {

// What results of a convolution see, a row each, of `row` bytes: [places, channels], and zeros up
// to its end. A matrix is an image of one column with a window of one place.
struct SmallRows {
  const void* x = nullptr;  // [batch, high, wide, channels] of bytes
  void* to = nullptr;
  std::int64_t first = 0, count = 0;  // rows
  std::int64_t row = 0;
  int high = 1, wide = 1, channels = 0;  // of x
  int pixel = 0;                         // bytes from one to the next; fewer where they overlap
  int out_high = 1, out_wide = 1;        // of the results
  int kernel_high = 1, kernel_wide = 1;  // of the window
  int stride_high = 1, stride_wide = 1;
  int dilation_high = 1, dilation_wide = 1;
  int top = 0, left = 0;      // padding
  unsigned char outside = 0;  // of x, where there is no pixel
  unsigned char flip = 0;     // 128: u8 as i8, 128 less
};
void enqueue(const SmallRows& rows, CUstream_st* stream);
// Whether they are there already, one behind the other.
inline bool lies_as_rows(const SmallRows& r) {
  return r.kernel_high * r.kernel_wide == 1 && r.stride_high == 1 && r.stride_wide == 1 &&
         r.out_high == r.high && r.out_wide == r.wide;
}

// An image whose pixels are as many neighbours of another's, down x across of them, channels of one
// behind the other's, and zeros up to a multiple of 16. So a window that goes by steps goes by
// pixels, and few channels are many.
struct SmallFold {
  const void* x = nullptr;  // [batch, high, wide, channels] of bytes
  void* to = nullptr;       // [batch, out_high, out_wide, out_channels]
  std::int64_t batch = 0;
  int high = 1, wide = 1, channels = 0;
  int down = 1, across = 1;
  int top = 0, left = 0;  // pixels of the padding that come first
  int out_high = 1, out_wide = 1, out_channels = 0;
  unsigned char outside = 0;  // of x, where there is no pixel
};
void enqueue(const SmallFold& fold, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
