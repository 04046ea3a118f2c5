// Space-to-depth for convolutions over few channels: neighbouring pixels become one pixel of more
// channels, and the strided window becomes a smaller one of stride 1.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/data_movement/im2col.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Whether windows read every pixel between their first and last one, and leave no gaps between
// windows. Otherwise pixels are not merged, and only their channels are padded.
bool covers_all_pixels(const Im2col& rows);

// Plans the copy that makes the channels of x a multiple of 16 bytes, and changes `rows` so that it
// describes the windows over the copy.
SpaceToDepthCall plan_space_to_depth(Im2col& rows, std::int64_t batch);

// Reads the pixels of a window's row as one pixel of more channels, where no window reaches outside
// of the image.
void merge_row_pixels(Im2col& rows);

// Bytes of weights [filters, channels, height, width] as [filters, height, width, channels].
std::vector<std::uint8_t> channels_last(const Tensor& weight);

// The weights of n filters, [filters, height, width, channels] for the windows of `before`, as the
// windows of `after` read them.
std::vector<std::uint8_t> space_to_depth_weights(const std::vector<std::uint8_t>& filters,
                                                 std::int64_t n, const Im2col& before,
                                                 const SpaceToDepthCall& call, const Im2col& after);

inline std::int64_t bytes_of(const SpaceToDepthCall& call) {
  return call.batch * call.out_height * call.out_width * call.out_channels;
}

}  // namespace sluice::kernels::cuda
