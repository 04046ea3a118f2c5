// Convolutions with f16 or bf16 images of at most four channels and a horizontal stride of two,
// such as the first layer of most networks, on Hopper (sm_90): tiles of image rows stay in shared
// memory, where windows overlap.
#pragma once

#include "kernels/common/real_type.h"
#include "kernels/conv/conv.h"
#include "tensor/tensor.h"

namespace sluice::kernels::cuda {

// Whether enqueue_conv_few_channels() can do it. A residual is not supported. The kernel reads up
// to three pixels to the right of a window with weights of zero, so that an infinite pixel there
// makes the result NaN.
bool conv_few_channels_supports(const ConvCall& call);

// Weights [out, in, rows, columns] in the layout of wgmma's A operand.
Tensor conv_few_channels_weights(const ConvCall& call, const Tensor& weight);

// x and y are NHWC; call.w is made by conv_few_channels_weights().
void enqueue_conv_few_channels(const ConvCall& call, CUstream_st* stream);

}  // namespace sluice::kernels::cuda
