// The parameters of a convolution, shared by its algorithms.
#pragma once

#include <string>

#include "engine/exec/cpu/backend.h"
#include "engine/graph/fused_ops.h"
#include "engine/ops/op.h"
#include "kernels/conv/channelwise_cpu.h"

namespace sluice::engine::cpu {

struct ConvNode {
  ImageWindow window;
  std::int64_t groups, filters;
  Tensor weights, bias;
  bool residual;
  ActivationParams activation;

  std::int64_t depth() const { return weights.shape()[1]; }  // input channels of a group
  std::int64_t taps() const { return window.high.kernel * window.wide.kernel; }

  std::string name_with_epilogue(std::string name) const {
    if (bias) name += " + bias";
    if (residual) name += " + residual";
    if (activation.activation != Activation::none)
      name += " + " + std::string(to_string(activation.activation));
    return name;
  }
};

// Null if the algorithm does not support the convolution.
std::unique_ptr<Kernel> make_depthwise(const ConvNode& conv, Context& context);
std::unique_ptr<Kernel> make_winograd(const ConvNode& conv, Context& context);

}  // namespace sluice::engine::cpu
