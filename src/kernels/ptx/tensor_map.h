// TMA descriptors (tensor maps) for byte tensors, on Hopper. Out-of-bounds reads are zero; writes
// are dropped. CUDA builds only. Throws where the driver rejects a map.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/data_movement/im2col.h"

namespace sluice::kernels::cuda {

// A box in shared memory: rows of 64 or 128 bytes with the swizzle of that width.
struct BoxShape {
  int row_bytes, rows;
};

// A tiled 2D map of `rows` rows of `bytes` bytes each, `stride` bytes apart: multiples of 16.
CUtensorMap tensor_map_2d(const void* x, std::int64_t rows, std::int64_t bytes, BoxShape box,
                          std::int64_t stride);
inline CUtensorMap tensor_map_2d(const void* x, std::int64_t rows, std::int64_t bytes,
                                 BoxShape box) {
  return tensor_map_2d(x, rows, bytes, box, bytes);
}

// An im2col map of the windows of `r` over `images` images: a row of a box is one kernel position
// of one output pixel.
CUtensorMap tensor_map_im2col(const Im2col& r, std::int64_t images, BoxShape box);

// Whether an im2col map can describe `r`: its corners, offsets and strides are in the ranges of the
// hardware, and its padding is zero.
bool im2col_map_supports(const Im2col& r);

}  // namespace sluice::kernels::cuda
