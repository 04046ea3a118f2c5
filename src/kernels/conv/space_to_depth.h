// Images whose neighbouring pixels are made one, for windows that see few channels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv/im2col.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Whether windows see each pixel between their first and their last, and miss none between them:
// only then neighbours are made one; else channels alone are rounded up.
bool is_dense(const SmallRows& rows);

// Of images that windows of `rows` see, whose channels are then bytes in sixteens; and `rows` as
// they see that.
SmallFold fold_for(SmallRows& rows, std::int64_t batch);

// Pixels of a window that lie side by side, as one, where all of them are in the image.
void join_pixels(SmallRows& rows);

// Bytes of weights [filters, channels, high, wide] in the order [filters, places, channels].
std::vector<std::uint8_t> channels_last(const Tensor& weight);

// Weights of n filters, bytes in the order [places, channels] of `before`, as windows of `after`
// meet them.
std::vector<std::uint8_t> folded(const std::vector<std::uint8_t>& filters, std::int64_t n,
                                 const SmallRows& before, const SmallFold& fold,
                                 const SmallRows& after);

inline std::int64_t bytes_of(const SmallFold& f) {
  return f.batch * f.out_high * f.out_wide * f.out_channels;
}

}  // namespace sluice::kernels::cuda
