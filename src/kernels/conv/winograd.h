// Convolutions 3 x 3 with fewer products (Winograd's minimal filters). Tiles of the image and
// the filters are turned so that each place of a turned tile meets its own place of the turned
// filter alone; those products are summed over the channels, and the sums are turned back.
// A tile of 2 x 2 results takes 4 x 4 = 16 products for each channel instead of 36, one of
// 4 x 4 results 6 x 6 = 36 instead of 144.
#pragma once

#include <cstdint>

#include "kernels/common/epilogue.h"

namespace sluice::kernels::cpu {

// Where the polynomials of 4 x 4 results are taken besides 0 and infinity, at both signs of
// each. With these, results are off about twice as far as sums in order are (2e-6 of the
// largest result with 256 channels); with 1 and 2 it would be six times as far.
inline constexpr double kNear = 0.70710678118654752, kFar = 1.41421356237309505;

constexpr int tile_pixels(int side) { return (side + 2) * (side + 2); }

// A tile of side x side results (2 or 4), of the pixels it sees row by row: channel c of place i
// is to[i * step + c]. Channels are whole vectors: a multiple of 16.
void turn_tile(int side, const float* const* pixels, std::int64_t channels, float* to,
               std::int64_t step);

struct TurnedSums {
  const float* from;  // as turn_tile() has it
  std::int64_t step, channels;
  const float *bias, *residual;  // residual lies as y does; null: none
  float* y;
  std::int64_t row, pixel;  // from a row of results to the next, and from one to the next
  int rows, columns;        // the results there are: fewer than the side where the image ends
  Epilogue epilogue;
};
void turn_back(int side, const TurnedSums& sums);

}  // namespace sluice::kernels::cpu
