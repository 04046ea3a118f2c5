// Winograd convolution for 3 x 3 kernels, F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3). Input tiles and
// filters are transformed so that each position of a transformed tile meets only its own position
// of the transformed filter; those products are summed over the channels by GEMMs, and the sums are
// transformed back. F(2 x 2) takes 16 multiplications for each channel instead of 36, F(4 x 4)
// takes 36 instead of 144.
#pragma once

#include <cstdint>

#include "kernels/common/activation_params.h"

namespace sluice::kernels::cpu {

// The interpolation points of F(4 x 4) besides 0 and infinity, each with both signs. With these the
// error is about twice that of a direct convolution (2e-6 of the largest result with 256 channels);
// with 1 and 2 it would be six times.
inline constexpr double kNear = 0.70710678118654752, kFar = 1.41421356237309505;

constexpr int tile_pixels(int side) { return (side + 2) * (side + 2); }

// Transforms the input tile of side x side results (2 or 4). `pixels` are the pixels it reads, row
// by row; channel c of position i goes to to[i * stride + c]. `channels` is a multiple of 16.
void winograd_input_transform(int side, const float* const* pixels, std::int64_t channels,
                              float* to, std::int64_t stride);

struct WinogradOutput {
  const float* from;  // GEMM results, in the layout of winograd_input_transform()
  std::int64_t stride, channels;
  const float *bias, *residual;  // residual has the layout of y; null: none
  float* y;
  std::int64_t row, pixel;  // strides of y from a row of results to the next, and between results
  int rows, columns;        // results to write: fewer than the side at the edge of the image
  ActivationParams activation;
};
void winograd_output_transform(int side, const WinogradOutput& output);

}  // namespace sluice::kernels::cpu
