// What all convolutions are made of.
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
  Epilogue epilogue;

  std::int64_t depth() const { return weights.shape()[1]; }  // channels of a group
  std::int64_t places() const { return window.high.kernel * window.wide.kernel; }

  std::string named(std::string what) const {
    if (bias) what += " + bias";
    if (residual) what += " + residual";
    if (epilogue.activation != Activation::none)
      what += " + " + std::string(to_string(epilogue.activation));
    return what;
  }
};

// Null where they do not take this one.
std::unique_ptr<Kernel> make_depthwise(const ConvNode& conv, Context& context);
std::unique_ptr<Kernel> make_winograd(const ConvNode& conv, Context& context);

}  // namespace sluice::engine::cpu
