// Convolutions: as a product where the window is one pixel, by cuDNN with all that follows in one
// kernel, or our own; whichever measures best.
#include "kernels/conv/conv.h"

#include <limits>

#include "device/cuda/check.h"
#include "engine/exec/cuda/nodes/conv_algorithm.h"
#include "engine/exec/cuda/nodes/conv_node.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "kernels/conv/conv_few_channels_sm90.h"
#include "kernels/gemm/pack_weights.h"
#include "kernels/quantized/int8_gemm_sm90.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

// Tries the ways there are and keeps the best.
class Chooser {
 public:
  Chooser(const Site& site, Context& context, const ConvCall& call)
      : context_(context),
        call_(call),
        dtype_(site.in(0).dtype),
        weight_(site.constant(1)),
        bias_values_(site.constant(2)),
        pads_(site.attributes().integers("pads", {0, 0, 0, 0})),
        bias_(site.has(2)),
        residual_(site.has(3)) {
    const Sliding& w = call.window;
    rows_ = static_cast<std::int64_t>(w.batch) * w.out_height * w.out_width;
  }

  Way best() {
    DnnFusion all = fusion(0);
    all.bias = bias_;
    all.residual = residual_;
    all.activation = call_.activation;
    all.low = call_.low;
    all.high = call_.high;
    const std::string of = "way of a " + name_of(all, context_.options);
    if (const ChoiceTable::Choice known = context_.choice(of)) {
      measures_ = false;
      try_one(*known);
    }
    if (found_) return std::move(best_);
    measures_ = context_.options.measure;
    const Context::Mark since = context_.mark();
    try_all();
    context_.choose(of, best_.name, since);
    return std::move(best_);
  }

 private:
  static constexpr int kWider[] = {4, 8};  // channels that cuDNN has better engines for
  bool may_widen(int channels) const {
    return call_.in < channels && call_.group == 1 && dtype_ != DType::f32;
  }
  static std::string dnn_name(int channels) { return "dnn " + std::to_string(channels); }

  void try_all() {
    try_product();
    try_dnn(0);
    for (const int channels : kWider)
      if (may_widen(channels)) try_dnn(channels);
    try_folded(false);
    try_folded(true);
    try_band();
    try_depthwise();
    if (!found_) try_bare();
    if (!found_) try_own();
  }
  // The way of this name, if there is one here.
  void try_one(const std::string& name) {
    if (name == "product") try_product();
    if (name == dnn_name(0)) try_dnn(0);
    for (const int channels : kWider)
      if (name == dnn_name(channels) && may_widen(channels)) try_dnn(channels);
    if (name == "folded") try_folded(false);
    if (name == "boxes") try_folded(true);
    if (name == "band") try_band();
    if (name == "depthwise") try_depthwise();
    if (name == "bare") try_bare();
    if (name == "own") try_own();
  }

  // [out, rows, columns, channels], with as many channels as asked for.
  ConstMemory along_channels(int channels) {
    const Sliding& w = call_.window;
    const std::int64_t ins = call_.in / call_.group, places = std::int64_t{w.rows} * w.columns;
    const std::size_t element = bytes(dtype_);
    const std::int64_t wide = channels > 0 ? channels : ins;
    const std::size_t size = byte_size(Shape{call_.out, places, wide}, dtype_);
    return context_.packed(
        weight_, "channels last " + to_string(weight_.shape()) + " " + std::to_string(wide), size,
        [&](const void* from, void* to) {
          if (channels == 0)
            return enqueue_transpose(from, to, call_.out, ins, places, element, context_.stream());
          const Memory between = context_.allocate(weight_.bytes());
          enqueue_transpose(from, between.get(), call_.out, ins, places, element,
                            context_.stream());
          enqueue_widen(between.get(), to, call_.out * places, ins, wide, element,
                        context_.stream());
          device::check(cudaStreamSynchronize(context_.stream()));  // before `between` goes
        });
  }
  ConstMemory by_place() {  // [rows, columns, out]
    const Sliding& w = call_.window;
    return context_.packed(weight_, "outputs last " + to_string(weight_.shape()), weight_.bytes(),
                           [&](const void* from, void* to) {
                             enqueue_transpose(from, to, 1, call_.out,
                                               std::int64_t{w.rows} * w.columns, bytes(dtype_),
                                               context_.stream());
                           });
  }

  // The first way is kept as it is, others where they are quicker.
  void keep(Way way) {
    const bool better = !found_ || (measures_ && way.us < best_.us);
    if (better) std::swap(best_, way);
    if (found_ && way.dnn) context_.forget(way.dnn->name());  // of the one that is not kept
    found_ = true;
  }
  After rest(Activation activation) const {
    return {.type = call_.type,
            .rows = rows_,
            .n = call_.out,
            .activation = activation,
            .low = call_.low,
            .high = call_.high};
  }
  // What `rest` takes, in microseconds.
  double rest_us(const Way& way) {
    if (!way.after || !measures_) return 0;
    After after = way.rest;
    const std::size_t size = byte_size(Shape{rows_, call_.out}, dtype_);
    after.x = context_.sample(2, size, dtype_);
    if (way.bare && residual_) after.before = context_.sample(3, size, dtype_);
    return context_.measure_us([&] { enqueue(after, context_.stream()); });
  }

  void try_product() {
    const Sliding& w = call_.window;
    if (w.rows * w.columns != 1 || w.stride_x * w.stride_y != 1 || call_.group != 1 ||
        pads_ != std::vector<std::int64_t>(4, 0))
      return;
    const bool relu = call_.activation == Activation::relu;
    const bool activates = !relu && call_.activation != Activation::none;
    Product product{.dtype = dtype_, .m = rows_, .n = call_.out, .k = call_.in};
    product.transposed_b = true;
    product.beta = residual_ ? 1 : 0;
    product.bias = bias_;
    product.after = relu ? Product::After::relu : Product::After::nothing;
    Way way{.name = "product"};
    way.product = plan_product(context_, product);
    if (!way.product) return;
    way.after = activates;
    way.rest = rest(call_.activation);
    way.weight = along_channels(0);
    way.us = way.product->us() + rest_us(way);
    way.what = "cuBLASLt product";
    keep(std::move(way));
  }

  // Neighbours of few channels made one, so that the window goes by whole pixels: by cuDNN, and by
  // Hopper's boxes.
  void try_folded(bool by_boxes) {
    const std::optional<FoldedConvolution> image = fold_convolution(call_, weight_);
    if (!image) return;
    Way way{.name = by_boxes ? "boxes" : "folded"};
    way.fold = image->fold;
    way.rest = rest(Activation::none);
    if (by_boxes)
      take_boxes(*image, way);
    else
      take_folded(*image, way);
    if (!way.dnn && !way.boxes) return;
    way.us += rest_us(way) + fold_us(way.fold);
    keep(std::move(way));
  }
  void take_folded(const FoldedConvolution& image, Way& way) {
    const SmallRows& rows = image.rows;
    const auto channels = rows.channels / static_cast<std::int64_t>(bytes(dtype_));
    DnnFusion all = fusion(0);
    all.x = {call_.window.batch, channels, rows.high, rows.wide};
    all.w = {call_.out, channels, rows.kernel_high, rows.kernel_wide};
    all.strides = {1, 1};
    all.before = all.behind = {0, 0};
    with_epilogue(all, way);
    way.dnn = plan_dnn(context_, all);
    if (!way.dnn) return;
    way.weight = context_.constant(Tensor::of(std::span<const std::uint8_t>(image.weights)));
    way.us = way.dnn->us();
    way.what = "fold, cuDNN convolution";
  }
  void take_boxes(const FoldedConvolution& image, Way& way) {
    if (bias_ && !bias_values_) return;
    way.boxes = plan_boxes(context_, call_, image, bias_values_, residual_);
    way.what = "fold, own convolution by boxes";
    if (!way.boxes || !measures_) return;
    const std::size_t size = byte_size(Shape{rows_, call_.out}, dtype_);
    SmallProduct product = way.boxes->product;
    product.rows.x = context_.sample(1, static_cast<std::size_t>(bytes_of(image.fold)), dtype_);
    product.finish.y = context_.sample(2, size, dtype_);
    if (residual_) product.finish.residual = context_.sample(3, size, dtype_);
    way.us = context_.measure_us([&] { enqueue(product, context_.stream()); });
  }
  double fold_us(SmallFold fold) {
    if (!measures_) return 0;
    const Sliding& w = call_.window;
    const auto pixels = static_cast<std::size_t>(std::int64_t{w.batch} * w.height * w.width);
    fold.x = context_.sample(0, pixels * static_cast<std::size_t>(fold.channels), dtype_);
    fold.to = context_.sample(1, static_cast<std::size_t>(bytes_of(fold)), dtype_);
    return context_.measure_us([&] { enqueue(fold, context_.stream()); });
  }

  DnnFusion fusion(int channels) const {
    const Sliding& w = call_.window;
    const std::int64_t ins = channels > 0 ? channels : call_.in;
    DnnFusion made{.dtype = dtype_,
                   .x = {w.batch, ins, w.height, w.width},
                   .w = {call_.out, ins / call_.group, w.rows, w.columns},
                   .y = {w.batch, call_.out, w.out_height, w.out_width}};
    made.strides = {w.stride_y, w.stride_x};
    made.dilations = {w.dilation_y, w.dilation_x};
    made.before = {pads_[0], pads_[1]};
    made.behind = {pads_[2], pads_[3]};
    return made;
  }

  // What follows, by cuDNN as far as it can.
  void with_epilogue(DnnFusion& all, Way& way) const {
    all.bias = bias_;
    all.residual = residual_;
    way.after = call_.activation == Activation::hard_swish;  // cuDNN has none
    if (!way.after) all.activation = call_.activation;
    all.low = call_.low;
    all.high = call_.high;
    way.rest = rest(call_.activation);
  }

  void try_dnn(int channels) {
    DnnFusion all = fusion(channels);
    Way way{.name = dnn_name(channels)};
    with_epilogue(all, way);
    way.dnn = plan_dnn(context_, all);
    if (!way.dnn) return;
    way.channels = channels;
    way.weight = along_channels(channels);
    way.us = way.dnn->us() + rest_us(way) + widen_us(channels);
    way.what = channels > 0 ? "widen, cuDNN convolution" : "cuDNN convolution";
    keep(std::move(way));
  }
  double widen_us(int channels) {
    if (channels == 0 || !measures_) return 0;
    const Sliding& w = call_.window;
    const std::int64_t pixels = std::int64_t{w.batch} * w.height * w.width;
    const std::size_t element = bytes(dtype_);
    const void* const from = context_.sample(0, byte_size(Shape{pixels, call_.in}, dtype_), dtype_);
    void* const to = context_.sample(1, byte_size(Shape{pixels, channels}, dtype_), dtype_);
    return context_.measure_us(
        [&] { enqueue_widen(from, to, pixels, call_.in, channels, element, context_.stream()); });
  }

  void try_depthwise() {
    if (call_.group != call_.in || call_.in <= 0) return;
    Way way{.name = "depthwise"};
    way.own = enqueue_depthwise;
    way.weight = by_place();
    way.what = "own depthwise convolution";
    keep_own(std::move(way), true);
  }

  void try_band() {
    if (context_.capability() != kHopper || residual_ || !band_takes(call_)) return;
    Way way{.name = "band"};
    way.own = enqueue_band;
    way.weight = context_.constant(band_weights(call_, weight_));
    way.what = "own convolution by bands";
    keep_own(std::move(way), call_.window.out_width >= 56);
  }

  // `guesses`: that it is the best, where nothing is measured.
  void keep_own(Way way, bool guesses) {
    if (measures_) {
      const Sliding& w = call_.window;
      const auto sample = [&](std::size_t slot, std::int64_t count) {
        return context_.sample(slot, byte_size(Shape{count}, dtype_), dtype_);
      };
      ConvCall call = call_;
      call.x = sample(0, std::int64_t{w.batch} * w.height * w.width * call_.in);
      call.w = way.weight.get();
      call.y = sample(2, rows_ * call_.out);
      if (residual_) call.residual = sample(3, rows_ * call_.out);
      if (bias_) call.bias = sample(4, call_.out);
      way.us = context_.measure_us([&] { way.own(call, context_.stream()); });
    } else if (guesses) {
      if (found_ && best_.dnn) context_.forget(best_.dnn->name());
      found_ = false;
    }
    keep(std::move(way));
  }

  // cuDNN for the convolution alone.
  void try_bare() {
    Way way{.name = "bare"};
    way.dnn = plan_dnn(context_, fusion(0));
    if (!way.dnn) return;
    way.bare = true;
    way.after = bias_ || residual_ || call_.activation != Activation::none;
    way.rest = rest(call_.activation);
    way.weight = along_channels(0);
    way.what = "cuDNN convolution";
    keep(std::move(way));
  }

  void try_own() {
    Way way{.name = "own"};
    way.own = enqueue_convolution;
    way.weight = along_channels(0);
    way.what = "own convolution";
    keep(std::move(way));
  }

  Context& context_;
  const ConvCall& call_;
  const DType dtype_;
  const Tensor weight_, bias_values_;
  const std::vector<std::int64_t> pads_;
  const bool bias_, residual_;
  std::int64_t rows_ = 0;
  bool found_ = false, measures_ = false;
  Way best_;
};

std::unique_ptr<Kernel> convolution(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  const TensorType x = site.in(0), y = site.out(0);
  const Tensor w = site.constant(1);
  if (!is_computed_real(x.dtype) || !w || w.dtype() != x.dtype || w.rank() != 4) return nullptr;
  if (y.shape.size() == 0) return nothing_to_do();
  const std::optional<Sliding> window = sliding_of(site, w.shape()[2], w.shape()[3]);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  const std::int64_t group = site.attributes().integer("group", 1);
  if (!window || w.size() == 0 || w.size() > kMost || x.shape[3] > kMost || group < 1 ||
      group > 65535 || w.shape()[0] % group != 0 || w.shape()[1] * group != x.shape[3])
    return nullptr;
  const Epilogue epilogue = epilogue_of(node.attributes);
  ConvCall call{.type = real_type(x.dtype),
                .window = *window,
                .in = static_cast<int>(x.shape[3]),
                .out = static_cast<int>(w.shape()[0]),
                .group = static_cast<int>(group),
                .activation = epilogue.activation,
                .low = epilogue.low,
                .high = epilogue.high};
  Way way = Chooser(site, context, call).best();
  if (site.has(2)) way.what += " + bias";
  if (site.has(3)) way.what += " + residual";
  if (epilogue.activation != Activation::none)
    way.what += (way.after ? ", then " : " + ") + std::string(to_string(epilogue.activation));
  return std::make_unique<Convolution>(call, std::move(way), site.has(3));
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
