// Convolution: a GEMM for 1 x 1 kernels, cuDNN with a fused epilogue, or one of our kernels,
// whichever measures fastest.
#include "kernels/conv/conv.h"

#include <limits>

#include "device/cuda/check.h"
#include "engine/exec/cuda/nodes/conv_algorithm.h"
#include "engine/exec/cuda/nodes/conv_node.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/gemm/gemm_sm90.h"
#include "kernels/gemm/pack_weights.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

// Measures the algorithms that support a convolution and keeps the fastest. Plans store their
// names; a plan with unknown names is measured again.
class ConvTuner {
 public:
  ConvTuner(const NodeView& view, Context& context, const ConvCall& call)
      : context_(context),
        call_(call),
        dtype_(view.in(0).dtype),
        weight_(view.constant(1)),
        bias_values_(view.constant(2)),
        pads_(view.attributes().integers("pads", {0, 0, 0, 0})),
        bias_(view.has(2)),
        residual_(view.has(3)) {
    const SlidingWindow& w = call.window;
    rows_ = static_cast<std::int64_t>(w.batch) * w.out_height * w.out_width;
  }

  ConvAlgorithm best() {
    CudnnFusion all = fusion(0);
    all.bias = bias_;
    all.residual = residual_;
    all.activation = call_.activation;
    all.low = call_.low;
    all.high = call_.high;
    const std::string key = "algorithm of " + algorithm_key(all, context_.options);
    if (const AlgorithmChoice known = context_.choice(key)) {
      measures_ = false;
      try_one(*known);
    }
    if (found_) return std::move(best_);
    measures_ = context_.options.measure;
    const Context::Mark since = context_.mark();
    try_all();
    context_.choose(key, best_.name, since);
    return std::move(best_);
  }

 private:
  static constexpr int kPaddedChannels[] = {4, 8};  // cuDNN has faster engines for these
  bool may_pad_channels(int channels) const {
    return call_.in < channels && call_.group == 1 && dtype_ != DType::f32;
  }
  static std::string cudnn_name(int channels) { return "cudnn " + std::to_string(channels); }

  void try_all() {
    try_gemm();
    try_cudnn(0);
    for (const int channels : kPaddedChannels)
      if (may_pad_channels(channels)) try_cudnn(channels);
    try_space_to_depth(false);
    try_space_to_depth(true);
    try_few_channels();
    try_depthwise();
    if (!found_) try_conv_only();
    if (!found_) try_direct();
  }
  // Tries the algorithm of this name, if it supports the convolution.
  void try_one(const std::string& name) {
    if (name == "gemm") try_gemm();
    if (name == cudnn_name(0)) try_cudnn(0);
    for (const int channels : kPaddedChannels)
      if (name == cudnn_name(channels) && may_pad_channels(channels)) try_cudnn(channels);
    if (name == "space_to_depth") try_space_to_depth(false);
    if (name == "space_to_depth_tma") try_space_to_depth(true);
    if (name == "few_channels_sm90") try_few_channels();
    if (name == "depthwise") try_depthwise();
    if (name == "conv_only") try_conv_only();
    if (name == "direct") try_direct();
  }

  // [out, rows, columns, channels], zero-padded to `channels` unless that is 0.
  ConstMemory channels_last_weight(int channels) {
    const SlidingWindow& w = call_.window;
    const std::int64_t in_channels = call_.in / call_.group,
                       taps = std::int64_t{w.rows} * w.columns;
    const std::size_t element = bytes(dtype_);
    const std::int64_t wide = channels > 0 ? channels : in_channels;
    const std::size_t size = byte_size(Shape{call_.out, taps, wide}, dtype_);
    return context_.packed(
        weight_, "channels last " + to_string(weight_.shape()) + " " + std::to_string(wide), size,
        [&](const void* from, void* to) {
          if (channels == 0)
            return enqueue_transpose(from, to, call_.out, in_channels, taps, element,
                                     context_.stream());
          const Memory transposed = context_.allocate(weight_.bytes());
          enqueue_transpose(from, transposed.get(), call_.out, in_channels, taps, element,
                            context_.stream());
          enqueue_pad_columns(transposed.get(), to, call_.out * taps, in_channels, wide, element,
                              context_.stream());
          device::check(cudaStreamSynchronize(context_.stream()));  // before `transposed` is freed
        });
  }
  ConstMemory outputs_last() {  // [rows, columns, out]
    const SlidingWindow& w = call_.window;
    return context_.packed(weight_, "outputs last " + to_string(weight_.shape()), weight_.bytes(),
                           [&](const void* from, void* to) {
                             enqueue_transpose(from, to, 1, call_.out,
                                               std::int64_t{w.rows} * w.columns, bytes(dtype_),
                                               context_.stream());
                           });
  }

  // Keeps the first algorithm, and later ones if they are faster.
  void keep(ConvAlgorithm algorithm) {
    const bool better = !found_ || (measures_ && algorithm.us < best_.us);
    if (better) std::swap(best_, algorithm);
    if (found_ && algorithm.cudnn) context_.forget(algorithm.cudnn->key());  // of the slower one
    found_ = true;
  }
  EpilogueCall epilogue_call(Activation activation) const {
    return {.type = call_.type,
            .rows = rows_,
            .n = call_.out,
            .activation = activation,
            .low = call_.low,
            .high = call_.high};
  }
  // The microseconds that the separate epilogue takes.
  double epilogue_us(const ConvAlgorithm& algorithm) {
    if (!algorithm.has_epilogue || !measures_) return 0;
    EpilogueCall epilogue = algorithm.epilogue;
    const std::size_t size = byte_size(Shape{rows_, call_.out}, dtype_);
    epilogue.x = context_.sample(2, size, dtype_);
    if (algorithm.conv_only && residual_) epilogue.residual = context_.sample(3, size, dtype_);
    return context_.measure_us([&] { enqueue_epilogue(epilogue, context_.stream()); });
  }

  void try_gemm() {
    const SlidingWindow& w = call_.window;
    if (w.rows * w.columns != 1 || w.stride_x * w.stride_y != 1 || call_.group != 1 ||
        pads_ != std::vector<std::int64_t>(4, 0))
      return;
    const bool relu = call_.activation == Activation::relu;
    const bool activates = !relu && call_.activation != Activation::none;
    CublasltGemm gemm{.dtype = dtype_, .m = rows_, .n = call_.out, .k = call_.in};
    gemm.transposed_b = true;
    gemm.beta = residual_ ? 1 : 0;
    gemm.bias = bias_;
    gemm.epilogue = relu ? CublasltGemm::Epilogue::relu : CublasltGemm::Epilogue::none;
    ConvAlgorithm algorithm{.name = "gemm"};
    algorithm.cublaslt = plan_cublaslt(context_, gemm);
    if (!algorithm.cublaslt) return;
    algorithm.has_epilogue = activates;
    algorithm.epilogue = epilogue_call(call_.activation);
    algorithm.weight = channels_last_weight(0);
    algorithm.us = algorithm.cublaslt->us() + epilogue_us(algorithm);
    algorithm.kernel_name = "cuBLASLt GEMM";
    keep(std::move(algorithm));
  }

  // Space-to-depth turns a strided convolution over few channels into one of stride 1: run by cuDNN
  // or, on Hopper, by our implicit GEMM with TMA.
  void try_space_to_depth(bool by_tma) {
    const std::optional<SpaceToDepthConvolution> conv = space_to_depth_convolution(call_, weight_);
    if (!conv) return;
    ConvAlgorithm algorithm{.name = by_tma ? "space_to_depth_tma" : "space_to_depth"};
    algorithm.space_to_depth = conv->space_to_depth;
    algorithm.epilogue = epilogue_call(Activation::none);
    if (by_tma)
      use_tma(*conv, algorithm);
    else
      use_cudnn(*conv, algorithm);
    if (!algorithm.cudnn && !algorithm.tma) return;
    algorithm.us += epilogue_us(algorithm) + space_to_depth_us(algorithm.space_to_depth);
    keep(std::move(algorithm));
  }
  void use_cudnn(const SpaceToDepthConvolution& conv, ConvAlgorithm& algorithm) {
    const Im2col& rows = conv.im2col;
    const auto channels = rows.channels / static_cast<std::int64_t>(bytes(dtype_));
    CudnnFusion all = fusion(0);
    all.x = {call_.window.batch, channels, rows.height, rows.width};
    all.w = {call_.out, channels, rows.kernel_height, rows.kernel_width};
    all.strides = {1, 1};
    all.pre_padding = all.post_padding = {0, 0};
    with_epilogue(all, algorithm);
    algorithm.cudnn = plan_cudnn(context_, all);
    if (!algorithm.cudnn) return;
    algorithm.weight = context_.constant(Tensor::of(std::span<const std::uint8_t>(conv.weights)));
    algorithm.us = algorithm.cudnn->us();
    algorithm.kernel_name = "space-to-depth, cuDNN convolution";
  }
  void use_tma(const SpaceToDepthConvolution& conv, ConvAlgorithm& algorithm) {
    if (bias_ && !bias_values_) return;
    algorithm.tma = plan_tma_convolution(context_, call_, conv, bias_values_, residual_);
    algorithm.kernel_name = "space-to-depth, TMA convolution";
    if (!algorithm.tma || !measures_) return;
    const std::size_t size = byte_size(Shape{rows_, call_.out}, dtype_);
    TileGemmCall gemm = algorithm.tma->gemm;
    gemm.rows.x =
        context_.sample(1, static_cast<std::size_t>(bytes_of(conv.space_to_depth)), dtype_);
    gemm.epilogue.y = context_.sample(2, size, dtype_);
    if (residual_) gemm.epilogue.residual = context_.sample(3, size, dtype_);
    algorithm.us = context_.measure_us([&] { enqueue_tile_gemm(gemm, context_.stream()); });
  }
  double space_to_depth_us(SpaceToDepthCall call) {
    if (!measures_) return 0;
    const SlidingWindow& w = call_.window;
    const auto pixels = static_cast<std::size_t>(std::int64_t{w.batch} * w.height * w.width);
    call.x = context_.sample(0, pixels * static_cast<std::size_t>(call.channels), dtype_);
    call.to = context_.sample(1, static_cast<std::size_t>(bytes_of(call)), dtype_);
    return context_.measure_us([&] { enqueue_space_to_depth(call, context_.stream()); });
  }

  CudnnFusion fusion(int channels) const {
    const SlidingWindow& w = call_.window;
    const std::int64_t in_channels = channels > 0 ? channels : call_.in;
    CudnnFusion made{.dtype = dtype_,
                     .x = {w.batch, in_channels, w.height, w.width},
                     .w = {call_.out, in_channels / call_.group, w.rows, w.columns},
                     .y = {w.batch, call_.out, w.out_height, w.out_width}};
    made.strides = {w.stride_y, w.stride_x};
    made.dilations = {w.dilation_y, w.dilation_x};
    made.pre_padding = {pads_[0], pads_[1]};
    made.post_padding = {pads_[2], pads_[3]};
    return made;
  }

  // Fuses the epilogue into the cuDNN graph as far as cuDNN supports it.
  void with_epilogue(CudnnFusion& all, ConvAlgorithm& algorithm) const {
    all.bias = bias_;
    all.residual = residual_;
    algorithm.has_epilogue = call_.activation == Activation::hard_swish;  // not in cuDNN
    if (!algorithm.has_epilogue) all.activation = call_.activation;
    all.low = call_.low;
    all.high = call_.high;
    algorithm.epilogue = epilogue_call(call_.activation);
  }

  void try_cudnn(int channels) {
    CudnnFusion all = fusion(channels);
    ConvAlgorithm algorithm{.name = cudnn_name(channels)};
    with_epilogue(all, algorithm);
    algorithm.cudnn = plan_cudnn(context_, all);
    if (!algorithm.cudnn) return;
    algorithm.padded_channels = channels;
    algorithm.weight = channels_last_weight(channels);
    algorithm.us = algorithm.cudnn->us() + epilogue_us(algorithm) + pad_channels_us(channels);
    algorithm.kernel_name = channels > 0 ? "pad channels, cuDNN convolution" : "cuDNN convolution";
    keep(std::move(algorithm));
  }
  double pad_channels_us(int channels) {
    if (channels == 0 || !measures_) return 0;
    const SlidingWindow& w = call_.window;
    const std::int64_t pixels = std::int64_t{w.batch} * w.height * w.width;
    const std::size_t element = bytes(dtype_);
    const void* const from = context_.sample(0, byte_size(Shape{pixels, call_.in}, dtype_), dtype_);
    void* const to = context_.sample(1, byte_size(Shape{pixels, channels}, dtype_), dtype_);
    return context_.measure_us([&] {
      enqueue_pad_columns(from, to, pixels, call_.in, channels, element, context_.stream());
    });
  }

  void try_depthwise() {
    if (call_.group != call_.in || call_.in <= 0) return;
    ConvAlgorithm algorithm{.name = "depthwise"};
    algorithm.direct = enqueue_depthwise;
    algorithm.weight = outputs_last();
    algorithm.kernel_name = "depthwise convolution";
    keep_direct(std::move(algorithm), true);
  }

  void try_few_channels() {
    if (!context_.has_sm90() || residual_ || !conv_few_channels_supports(call_)) return;
    ConvAlgorithm algorithm{.name = "few_channels_sm90"};
    algorithm.direct = enqueue_conv_few_channels;
    algorithm.weight = context_.constant(conv_few_channels_weights(call_, weight_));
    algorithm.kernel_name = "few-channel convolution";
    keep_direct(std::move(algorithm), call_.window.out_width >= 56);
  }

  // `is_likely_best`: it is preferred when nothing is measured.
  void keep_direct(ConvAlgorithm algorithm, bool is_likely_best) {
    if (measures_) {
      const SlidingWindow& w = call_.window;
      const auto sample = [&](std::size_t slot, std::int64_t count) {
        return context_.sample(slot, byte_size(Shape{count}, dtype_), dtype_);
      };
      ConvCall call = call_;
      call.x = sample(0, std::int64_t{w.batch} * w.height * w.width * call_.in);
      call.w = algorithm.weight.get();
      call.y = sample(2, rows_ * call_.out);
      if (residual_) call.residual = sample(3, rows_ * call_.out);
      if (bias_) call.bias = sample(4, call_.out);
      algorithm.us = context_.measure_us([&] { algorithm.direct(call, context_.stream()); });
    } else if (is_likely_best) {
      if (found_ && best_.cudnn) context_.forget(best_.cudnn->key());
      found_ = false;
    }
    keep(std::move(algorithm));
  }

  // cuDNN without an epilogue.
  void try_conv_only() {
    ConvAlgorithm algorithm{.name = "conv_only"};
    algorithm.cudnn = plan_cudnn(context_, fusion(0));
    if (!algorithm.cudnn) return;
    algorithm.conv_only = true;
    algorithm.has_epilogue = bias_ || residual_ || call_.activation != Activation::none;
    algorithm.epilogue = epilogue_call(call_.activation);
    algorithm.weight = channels_last_weight(0);
    algorithm.kernel_name = "cuDNN convolution";
    keep(std::move(algorithm));
  }

  void try_direct() {
    ConvAlgorithm algorithm{.name = "direct"};
    algorithm.direct = enqueue_convolution;
    algorithm.weight = channels_last_weight(0);
    algorithm.kernel_name = "direct convolution";
    keep(std::move(algorithm));
  }

  Context& context_;
  const ConvCall& call_;
  const DType dtype_;
  const Tensor weight_, bias_values_;
  const std::vector<std::int64_t> pads_;
  const bool bias_, residual_;
  std::int64_t rows_ = 0;
  bool found_ = false, measures_ = false;
  ConvAlgorithm best_;
};

std::unique_ptr<Kernel> convolution(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const TensorType x = view.in(0), y = view.out(0);
  const Tensor w = view.constant(1);
  if (!is_computed_real(x.dtype) || !w || w.dtype() != x.dtype || w.rank() != 4) return nullptr;
  if (y.shape.size() == 0) return nothing_to_do();
  const std::optional<SlidingWindow> window = sliding_of(view, w.shape()[2], w.shape()[3]);
  constexpr std::int64_t kMaxSize = std::numeric_limits<int>::max() / 2;
  const std::int64_t group = view.attributes().integer("group", 1);
  if (!window || w.size() == 0 || w.size() > kMaxSize || x.shape[3] > kMaxSize || group < 1 ||
      group > 65535 || w.shape()[0] % group != 0 || w.shape()[1] * group != x.shape[3])
    return nullptr;
  const ActivationParams activation = activation_params_of(node.attributes);
  ConvCall call{.type = real_type(x.dtype),
                .window = *window,
                .in = static_cast<int>(x.shape[3]),
                .out = static_cast<int>(w.shape()[0]),
                .group = static_cast<int>(group),
                .activation = activation.activation,
                .low = activation.low,
                .high = activation.high};
  ConvAlgorithm algorithm = ConvTuner(view, context, call).best();
  if (view.has(2)) algorithm.kernel_name += " + bias";
  if (view.has(3)) algorithm.kernel_name += " + residual";
  if (activation.activation != Activation::none)
    algorithm.kernel_name += (algorithm.has_epilogue ? ", then " : " + ") +
                             std::string(to_string(activation.activation));
  return std::make_unique<Convolution>(call, std::move(algorithm), view.has(3));
}

}  // namespace

std::span<const Maker> conv_kernels() {
  static constexpr Maker kConvMakers[] = {
      {"Conv", kFused, convolution},
      {"MaxPool", kFused, make_pool},
      {"AveragePool", kFused, make_pool},
  };
  return kConvMakers;
}

}  // namespace sluice::engine::cuda
