// Depthwise convolution.
#include "engine/exec/cpu/conv.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/exec/cpu/pool.h"
#include "kernels/gemm/packed_gemm.h"

namespace sluice::engine::cpu {
namespace {

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const ConvNode& conv, Context& context)
      : workers_(context.workers),
        residual_(conv.residual),
        name_(conv.name_with_epilogue("depthwise convolution")) {
    const std::int64_t channels = conv.filters, taps = conv.taps();
    weights_ = context.packed(conv.weights, "by tap", {DType::f32, {channels * taps}}, [&] {
      const Tensor all(DType::f32, {channels * taps});
      for (std::int64_t i = 0; i < channels * taps; ++i)
        as<float>(all)[static_cast<std::size_t>(i % taps * channels + i / taps)] =
            as<float>(conv.weights)[static_cast<std::size_t>(i)];
      return all;
    });
    bias_ = packed_bias(channels, conv.bias ? as<float>(conv.bias).data() : nullptr);
    of_ = std::make_unique<ChannelWise>(ChannelWise{.kind = ChannelWise::Kind::depthwise,
                                                    .window = conv.window,
                                                    .weights = as<float>(weights_).data(),
                                                    .bias = bias_.get(),
                                                    .activation = conv.activation});
  }

  void run(const KernelArgs& args) const override {
    for_each_row(workers_, *of_, floats(args, 0), residual_ ? floats(args, 3) : nullptr,
                 static_cast<float*>(args.outputs[0]));
  }
  std::string_view name() const override { return name_; }
  int in_place() const override { return residual_ ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 && input != 2; }

 private:
  compute::Workers& workers_;
  bool residual_;
  std::string name_;
  Tensor weights_;
  Floats bias_;
  std::unique_ptr<ChannelWise> of_;
};

}  // namespace

std::unique_ptr<Kernel> make_depthwise(const ConvNode& conv, Context& context) {
  if (conv.groups != conv.window.channels || conv.filters != conv.groups || conv.groups == 1)
    return nullptr;
  return std::make_unique<DepthwiseKernel>(conv, context);
}

}  // namespace sluice::engine::cpu
