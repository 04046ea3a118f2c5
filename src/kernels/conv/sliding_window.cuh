// Windows that slide over NHWC images; a thread computes some channels of an output pixel.
#pragma once

#include "kernels/common/grid.cuh"
#include "kernels/conv/conv.h"

namespace sluice::kernels::cuda {

// The input pixel where the window of an output pixel begins; y and x may be in the padding.
struct WindowCorner {
  long long image;  // index of the image's first pixel
  int y, x;
};

__device__ inline WindowCorner corner_of(const SlidingWindow& w, long long pixel) {
  const int x = static_cast<int>(pixel % w.out_width);
  const int y = static_cast<int>(pixel / w.out_width % w.out_height);
  const long long image = pixel / w.out_width / w.out_height;
  return {image * w.height * w.width, y * w.stride_y - w.top, x * w.stride_x - w.left};
}

// The index of an input pixel; -1 in the padding.
__device__ inline long long pixel_at(const SlidingWindow& w, const WindowCorner& corner, int row,
                                     int column) {
  const int y = corner.y + row * w.dilation_y, x = corner.x + column * w.dilation_x;
  const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
  return inside ? corner.image + static_cast<long long>(y) * w.width + x : -1;
}

inline long long pixels_of(const SlidingWindow& w) {
  return static_cast<long long>(w.batch) * w.out_height * w.out_width;
}

}  // namespace sluice::kernels::cuda
