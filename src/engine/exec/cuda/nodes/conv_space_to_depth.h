// Strided f16 and bf16 convolutions over few channels: space-to-depth makes them convolutions of
// stride 1 over more channels.
#pragma once

#include <optional>

#include "engine/exec/cuda/context/backend.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/space_to_depth.h"
#include "kernels/gemm/tile_gemm.h"

namespace sluice::engine::cuda {

// The convolution after space-to-depth; channels are counted in bytes.
struct SpaceToDepthConvolution {
  SpaceToDepthCall space_to_depth;
  Im2col im2col;
  std::vector<std::uint8_t> weights;  // [filters, kernel_height * kernel_width, channels]
};
// None if it would not be faster.
std::optional<SpaceToDepthConvolution> space_to_depth_convolution(const ConvCall& call,
                                                                  const Tensor& weight);

// An implicit GEMM with a fused epilogue, by the Hopper GEMM (gemm_sm90.h).
struct TmaConvolution {
  TileGemmCall gemm;  // without the pointers of input, residual and output
  ConstMemory weight, columns;
};
// None if the GPU is not Hopper or the kernel does not support it. `bias` is a constant or empty.
std::optional<TmaConvolution> plan_tma_convolution(Context& context, const ConvCall& call,
                                                   const SpaceToDepthConvolution& conv,
                                                   const Tensor& bias, bool has_residual);

}  // namespace sluice::engine::cuda
