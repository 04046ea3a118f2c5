#include "kernels/conv/space_to_depth.h"

#include <algorithm>
#include <utility>

namespace sluice::kernels::cuda {

bool covers_all_pixels(const Im2col& rows) {
  return rows.dilation_y == 1 && rows.dilation_x == 1 && rows.stride_y <= rows.kernel_height &&
         rows.stride_x <= rows.kernel_width;
}

SpaceToDepthCall plan_space_to_depth(Im2col& rows, std::int64_t batch) {
  SpaceToDepthCall f{
      .batch = batch, .height = rows.height, .width = rows.width, .channels = rows.channels};
  f.pad_value = rows.pad_value;
  f.out_height = rows.height, f.out_width = rows.width;
  if (covers_all_pixels(rows)) {
    f.block_height = std::exchange(rows.stride_y, 1),
    f.block_width = std::exchange(rows.stride_x, 1);
    f.pad_top = std::exchange(rows.pad_top, 0), f.pad_left = std::exchange(rows.pad_left, 0);
    rows.kernel_height = (rows.kernel_height + f.block_height - 1) / f.block_height;
    rows.kernel_width = (rows.kernel_width + f.block_width - 1) / f.block_width;
    rows.height = f.out_height = rows.out_height + rows.kernel_height - 1;
    rows.width = f.out_width = rows.out_width + rows.kernel_width - 1;
  }
  f.out_channels =
      static_cast<int>((std::int64_t{f.block_height} * f.block_width * f.channels + 15) / 16 * 16);
  rows.channels = rows.pixel_stride = f.out_channels;
  rows.row_bytes = std::int64_t{rows.kernel_height} * rows.kernel_width * rows.channels;
  return f;
}

void merge_row_pixels(Im2col& rows) {
  const int last = (rows.out_width - 1) * rows.stride_x + rows.kernel_width;
  if (rows.dilation_x > 1 || rows.pad_left > 0 || last > rows.width) return;
  rows.channels *= std::exchange(rows.kernel_width, 1);
}

std::vector<std::uint8_t> channels_last(const Tensor& weight) {
  const auto* const from = static_cast<const std::uint8_t*>(weight.data());
  const auto element = static_cast<std::int64_t>(bytes(weight.dtype()));
  const std::int64_t channels = weight.shape()[1], taps = weight.shape()[2] * weight.shape()[3];
  std::vector<std::uint8_t> to(weight.bytes());
  for (std::int64_t i = 0; i < weight.size(); ++i) {
    const std::int64_t filter = i / (taps * channels), channel = i / taps % channels;
    const std::int64_t at = (filter * taps + i % taps) * channels + channel;
    std::copy_n(from + i * element, element, to.begin() + at * element);
  }
  return to;
}

std::vector<std::uint8_t> space_to_depth_weights(const std::vector<std::uint8_t>& filters,
                                                 std::int64_t n, const Im2col& before,
                                                 const SpaceToDepthCall& call,
                                                 const Im2col& after) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(n * after.row_bytes));
  const std::int64_t taps = std::int64_t{before.kernel_height} * before.kernel_width;
  for (std::int64_t i = 0; i < n * taps; ++i) {
    const std::int64_t y = i % taps / before.kernel_width, x = i % taps % before.kernel_width;
    const std::int64_t pixel = y / call.block_height * after.kernel_width + x / call.block_width;
    const std::int64_t neighbour = y % call.block_height * call.block_width + x % call.block_width;
    std::copy_n(filters.begin() + i * call.channels, call.channels,
                all.begin() + i / taps * after.row_bytes + pixel * after.channels +
                    neighbour * call.channels);
  }
  return all;
}

}  // namespace sluice::kernels::cuda
