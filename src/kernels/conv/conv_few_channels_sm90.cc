#include "kernels/conv/conv_few_channels_sm90.h"

#include <algorithm>

namespace sluice::kernels::cuda {

// [filters / 64][kernel row][pixel pair][filter][two pixels of four channels]
Tensor conv_few_channels_weights(const ConvCall& call, const Tensor& weight) {
  const SlidingWindow& w = call.window;
  const std::int64_t k_pairs = (w.columns + 3) / 4, tiles = (call.out + 63) / 64;
  const Tensor made(weight.dtype(), {tiles, w.rows, 2 * k_pairs, 64, 8});
  const auto from = reinterpret_cast<const std::uint16_t*>(weight.data());
  const auto to = reinterpret_cast<std::uint16_t*>(made.data());
  std::fill_n(to, made.size(), std::uint16_t{0});
  for (std::int64_t n = 0; n < call.out; ++n)
    for (std::int64_t c = 0; c < call.in; ++c)
      for (std::int64_t y = 0; y < w.rows; ++y)
        for (std::int64_t x = 0; x < w.columns; ++x) {
          const std::int64_t pair = (n / 64 * w.rows + y) * 2 * k_pairs + x / 2;
          to[(pair * 64 + n % 64) * 8 + x % 2 * 4 + c] =
              from[((n * call.in + c) * w.rows + y) * w.columns + x];
        }
  return made;
}

}  // namespace sluice::kernels::cuda
