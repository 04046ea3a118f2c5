#include "kernels/conv/space_to_depth.h"

#include <algorithm>
#include <utility>

namespace sluice::kernels::cuda {

bool is_dense(const SmallRows& rows) {
  return rows.dilation_high == 1 && rows.dilation_wide == 1 &&
         rows.stride_high <= rows.kernel_high && rows.stride_wide <= rows.kernel_wide;
}

SmallFold fold_for(SmallRows& rows, std::int64_t batch) {
  SmallFold f{.batch = batch, .high = rows.high, .wide = rows.wide, .channels = rows.channels};
  f.outside = rows.outside;
  f.out_high = rows.high, f.out_wide = rows.wide;
  if (is_dense(rows)) {
    f.down = std::exchange(rows.stride_high, 1), f.across = std::exchange(rows.stride_wide, 1);
    f.top = std::exchange(rows.top, 0), f.left = std::exchange(rows.left, 0);
    rows.kernel_high = (rows.kernel_high + f.down - 1) / f.down;
    rows.kernel_wide = (rows.kernel_wide + f.across - 1) / f.across;
    rows.high = f.out_high = rows.out_high + rows.kernel_high - 1;
    rows.wide = f.out_wide = rows.out_wide + rows.kernel_wide - 1;
  }
  f.out_channels = static_cast<int>((std::int64_t{f.down} * f.across * f.channels + 15) / 16 * 16);
  rows.channels = rows.pixel = f.out_channels;
  rows.row = std::int64_t{rows.kernel_high} * rows.kernel_wide * rows.channels;
  return f;
}

void join_pixels(SmallRows& rows) {
  const int last = (rows.out_wide - 1) * rows.stride_wide + rows.kernel_wide;
  if (rows.dilation_wide > 1 || rows.left > 0 || last > rows.wide) return;
  rows.channels *= std::exchange(rows.kernel_wide, 1);
}

std::vector<std::uint8_t> channels_last(const Tensor& weight) {
  const auto* const from = static_cast<const std::uint8_t*>(weight.data());
  const auto element = static_cast<std::int64_t>(bytes(weight.dtype()));
  const std::int64_t channels = weight.shape()[1], places = weight.shape()[2] * weight.shape()[3];
  std::vector<std::uint8_t> to(weight.bytes());
  for (std::int64_t i = 0; i < weight.size(); ++i) {
    const std::int64_t filter = i / (places * channels), channel = i / places % channels;
    const std::int64_t at = (filter * places + i % places) * channels + channel;
    std::copy_n(from + i * element, element, to.begin() + at * element);
  }
  return to;
}

std::vector<std::uint8_t> folded(const std::vector<std::uint8_t>& filters, std::int64_t n,
                                 const SmallRows& before, const SmallFold& fold,
                                 const SmallRows& after) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(n * after.row));
  const std::int64_t places = std::int64_t{before.kernel_high} * before.kernel_wide;
  for (std::int64_t i = 0; i < n * places; ++i) {
    const std::int64_t y = i % places / before.kernel_wide, x = i % places % before.kernel_wide;
    const std::int64_t pixel = y / fold.down * after.kernel_wide + x / fold.across;
    const std::int64_t neighbour = y % fold.down * fold.across + x % fold.across;
    std::copy_n(
        filters.begin() + i * fold.channels, fold.channels,
        all.begin() + i / places * after.row + pixel * after.channels + neighbour * fold.channels);
  }
  return all;
}

}  // namespace sluice::kernels::cuda
