// In builds without cuDNN's header too: choices between cuDNN and other kernels are cached by it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/exec/cuda/cudnn/cudnn_fusion.h"

namespace sluice::engine::cuda {

std::string algorithm_key(const CudnnFusion& f, const Options& options) {
  return fmt::format("{} {}{} x {} w {} y {} by {} {} pads {} {}{}{} {} {} {}",
                     f.gemm ? "matmul" : "convolution", to_string(f.dtype),
                     options.tf32 && f.dtype == DType::f32 ? "/tf32" : "", fmt::join(f.x, ","),
                     fmt::join(f.w, ","), fmt::join(f.y, ","), fmt::join(f.strides, ","),
                     fmt::join(f.dilations, ","), fmt::join(f.pre_padding, ","),
                     fmt::join(f.post_padding, ","), f.bias ? " bias" : "",
                     f.residual ? " residual" : "", static_cast<int>(f.activation), f.low, f.high);
}

}  // namespace sluice::engine::cuda
