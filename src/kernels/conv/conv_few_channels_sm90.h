// Convolutions of halves that see few channels and go by two pixels, as the first of most networks
// do, on Hopper: a band of an image's rows lies in shared memory, and windows overlap there.
#pragma once

#include "kernels/common/real_type.h"
#include "kernels/conv/conv.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Whether enqueue_band() is for it: not with a residual. Windows are widened to a multiple of four
// pixels by weights of zero, so that an infinite pixel up to three behind a window makes it NaN.
bool band_takes(const ConvCall& call);

// Weights [out, in, rows, columns] in the order that the tensor cores want.
Tensor band_weights(const ConvCall& call, const Tensor& weight);

// On images [batch, height, width, channels]; call.w as band_weights() has made them.
void enqueue_band(const ConvCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
