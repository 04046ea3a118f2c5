// Maps of tensors of bytes, by which Hopper copies boxes of them to shared memory and back by
// itself. What a box has beyond the tensor is zero, and is not written. CUDA builds only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/conv/im2col.h"

namespace sluice::kernels::cuda {

// In shared memory a box is rows of 64 or 128 bytes, whose parts of 16 are turned by the row.
struct BoxSize {
  int wide, rows;
};

// Of `rows` rows of `bytes` bytes each, a multiple of 16.
CUtensorMap map_rows(const void* x, std::int64_t rows, std::int64_t bytes, BoxSize box);

// Of what windows of `r` see at one of their places, a row for each, as they come, over images.
CUtensorMap map_windows(const SmallRows& r, std::int64_t images, BoxSize box);

// Whether windows can be mapped: numbers of the map are small, and padding is zero.
bool windows_can_be_mapped(const SmallRows& r);

}  // namespace sluice::kernels::cuda
