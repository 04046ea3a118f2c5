// Convolutions of halves that see few channels and go by steps: of an image whose pixels are
// folded.
#pragma once

#include <optional>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/space_to_depth.h"
#include "kernels/quantized/int8_gemm.h"

namespace sluice::engine::cuda {

// What a window sees of such an image, and the weights as it meets them; channels are bytes.
struct FoldedConvolution {
  SmallFold fold;
  SmallRows rows;
  std::vector<std::uint8_t> weights;  // [filters, places, channels]
};
// None where there is nothing to gain.
std::optional<FoldedConvolution> fold_convolution(const ConvCall& call, const Tensor& weight);

// With all that follows, by Hopper's boxes, as products of bytes are made.
struct BoxConvolution {
  SmallProduct product;  // without what it reads and writes
  ConstMemory weight, columns;
};
// None where the GPU has none, or what follows is not for it. The bias is a constant, or empty.
std::optional<BoxConvolution> plan_boxes(Context& context, const ConvCall& call,
                                         const FoldedConvolution& folded, const Tensor& bias,
                                         bool has_residual);

}  // namespace sluice::engine::cuda
