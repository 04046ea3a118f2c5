// Windows that slide over images, with one thread for some channels of a pixel.
#pragma once

#include "kernels/common/grid.cuh"
#include "kernels/conv/conv.h"

namespace sluice::kernels::cuda {

// The pixel of the input that output pixel (y, x) begins to see.
struct Corner {
  long long image;  // where its first pixel lies
  int y, x;
};

__device__ inline Corner corner_of(const Sliding& w, long long pixel) {
  const int x = static_cast<int>(pixel % w.out_width);
  const int y = static_cast<int>(pixel / w.out_width % w.out_height);
  const long long image = pixel / w.out_width / w.out_height;
  return {image * w.height * w.width, y * w.stride_y - w.top, x * w.stride_x - w.left};
}

// -1 where it lies outside.
__device__ inline long long pixel_at(const Sliding& w, const Corner& corner, int row, int column) {
  const int y = corner.y + row * w.dilation_y, x = corner.x + column * w.dilation_x;
  const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
  return inside ? corner.image + static_cast<long long>(y) * w.width + x : -1;
}

inline long long pixels_of(const Sliding& w) {
  return static_cast<long long>(w.batch) * w.out_height * w.out_width;
}

}  // namespace sluice::kernels::cuda
