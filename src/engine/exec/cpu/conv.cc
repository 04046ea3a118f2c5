// NHWC convolution as an implicit GEMM: the rows of the left operand are read in place from the
// image; the right operand is the packed weights.
#include "engine/exec/cpu/conv.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/exec/cpu/image_window.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/exec/cpu/pool.h"
#include "engine/graph/fused_ops.h"
#include "kernels/common/each_task.h"
#include "kernels/gemm/packed_gemm.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::int64_t kFewChannels = 8;  // up to here runs of one tap are too short

// im2col rows with one run for each tap of the kernel; zeros for padding.
class Im2colRows final : public RowSource {
 public:
  Im2colRows(const ImageWindow& window, const float* x, const float* zeros)
      : w_(window), x_(x), zeros_(zeros) {}

  void point(std::int64_t first, std::int64_t count, const float** to) const override {
    std::vector<At> all(static_cast<std::size_t>(count));
    std::int64_t column = first % w_.wide.out, line = first / w_.wide.out;
    for (At& at : all) {
      at = {line / w_.high.out * w_.high.in * w_.wide.in, w_.high.start(line % w_.high.out),
            w_.wide.start(column)};
      if (++column == w_.wide.out) column = 0, ++line;
    }
    for (std::int64_t r = 0; r < w_.high.kernel; ++r)
      for (std::int64_t c = 0; c < w_.wide.kernel; ++c, to += count)
        point_tap(all, r * w_.high.dilation, c * w_.wide.dilation, to);
  }

 private:
  struct At {
    std::int64_t image, top, left;  // image: index of its first pixel
  };

  void point_tap(const std::vector<At>& all, std::int64_t down, std::int64_t right,
                 const float** to) const {
    const auto high = static_cast<std::uint64_t>(w_.high.in);
    const auto wide = static_cast<std::uint64_t>(w_.wide.in);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t y = all[i].top + down, x = all[i].left + right;
      const bool inside =
          static_cast<std::uint64_t>(y) < high && static_cast<std::uint64_t>(x) < wide;
      to[i] = inside ? x_ + (all[i].image + y * w_.wide.in + x) * w_.channels : zeros_;
    }
  }

  const ImageWindow& w_;
  const float *x_, *zeros_;
};

// The image with its padding.
struct Padded {
  std::int64_t high, wide, channels;

  explicit Padded(const ImageWindow& w)
      : high(w.high.in + w.high.before + w.high.after),
        wide(w.wide.in + w.wide.before + w.wide.after),
        channels(w.channels) {}
  std::int64_t row() const { return wide * channels; }
  std::int64_t image() const { return high * row(); }

  // Fills row `at`, counted over all images.
  void fill_row(const ImageWindow& w, const float* x, std::int64_t at, float* to) const {
    const std::int64_t y = at % high - w.high.before;
    to += at * row();
    if (y < 0 || y >= w.high.in) {
      std::fill_n(to, row(), 0.0f);
      return;
    }
    const std::int64_t before = w.wide.before * channels, in = w.wide.in * channels;
    std::fill_n(to, before, 0.0f);
    std::copy_n(x + (at / high * w.high.in + y) * in, in, to + before);
    std::fill_n(to + before + in, w.wide.after * channels, 0.0f);
  }
};

// im2col rows with one run for each row of the kernel, from a padded image.
class Im2colLineRows final : public RowSource {
 public:
  Im2colLineRows(const ImageWindow& window, const float* padded)
      : w_(window), padded_(window), x_(padded) {}

  void point(std::int64_t first, std::int64_t count, const float** to) const override {
    std::int64_t column = first % w_.wide.out, line = first / w_.wide.out;
    const float* from = nullptr;
    for (std::int64_t i = 0; i < count; ++i, from += w_.wide.stride * w_.channels) {
      if (i == 0 || column == w_.wide.out) {
        if (column == w_.wide.out) column = 0, ++line;
        from = x_ + line / w_.high.out * padded_.image() +
               line % w_.high.out * w_.high.stride * padded_.row() +
               column * w_.wide.stride * w_.channels;
      }
      ++column;
      for (std::int64_t r = 0; r < w_.high.kernel; ++r)
        to[r * count + i] = from + r * w_.high.dilation * padded_.row();
    }
  }

 private:
  const ImageWindow& w_;
  Padded padded_;
  const float* x_;
};

// [rows, columns, channels of a group] x [filters of a group] as panels, group by group.
Tensor packed_filters(const ConvNode& conv) {
  const std::int64_t n = conv.filters / conv.groups, taps = conv.taps(), depth = conv.depth();
  const std::int64_t k = taps * depth;
  const float* from = as<float>(conv.weights).data();
  const Tensor panels(DType::f32, {conv.groups * panel_values(k, n)});
  std::vector<float> matrix(static_cast<std::size_t>(k * n));
  for (std::int64_t group = 0; group < conv.groups; ++group, from += n * k) {
    for (std::int64_t filter = 0; filter < n; ++filter)
      for (std::int64_t i = 0; i < k; ++i)
        matrix[static_cast<std::size_t>((i % taps * depth + i / taps) * n + filter)] =
            from[filter * k + i];
    pack(k, n, {matrix.data(), n, 1}, as<float>(panels).data() + group * panel_values(k, n));
  }
  return panels;
}

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const ConvNode& conv, Context& context)
      : workers_(context.workers),
        conv_(conv),
        name_(conv.name_with_epilogue(algorithm_name(algorithm()))) {
    const std::int64_t n = conv.filters / conv.groups;
    panels_ = context.packed(
        conv.weights, panel_format("filters of " + std::to_string(conv.groups) + " groups"),
        {DType::f32, {conv.groups * panel_values(conv.taps() * conv.depth(), n)}},
        [&] { return packed_filters(conv); });
    for (std::int64_t group = 0; group < conv.groups; ++group)
      bias_.push_back(
          packed_bias(n, conv.bias ? as<float>(conv.bias).data() + group * n : nullptr));
    zeros_ = packed_bias(conv.depth(), nullptr);
    conv_.weights = conv_.bias = Tensor();  // packed
    depth_ = conv.depth();
  }

  void run(const KernelArgs& args) const override {
    if (algorithm() == Algorithm::im2col_lines) pad(args);
    if (conv_.groups >= workers_.threads()) {
      each_task(workers_, static_cast<std::size_t>(conv_.groups),
                [&](std::size_t group, std::size_t) {
                  run_group(args, static_cast<std::int64_t>(group),
                            [](const auto&... all) { packed_gemm(all...); });
                });
      return;
    }
    for (std::int64_t group = 0; group < conv_.groups; ++group)
      run_group(args, group, [&](const auto&... all) { packed_gemm(workers_, all...); });
  }
  std::string_view name() const override { return name_; }
  std::size_t scratch() const override {
    if (algorithm() != Algorithm::im2col_lines) return 0;
    return byte_size(Shape{conv_.window.batch, Padded(conv_.window).image()}, DType::f32);
  }
  int in_place() const override { return conv_.residual ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 && input != 2; }

 private:
  enum class Algorithm { pointwise, im2col, im2col_lines };

  Algorithm algorithm() const {
    const kernels::Window::Axis &high = conv_.window.high, &wide = conv_.window.wide;
    const auto is_pointwise = [](const kernels::Window::Axis& axis) {
      return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
    };
    if (is_pointwise(high) && is_pointwise(wide)) return Algorithm::pointwise;
    const bool few = conv_.window.channels <= kFewChannels && conv_.groups == 1;
    return few && wide.dilation == 1 ? Algorithm::im2col_lines : Algorithm::im2col;
  }
  static std::string algorithm_name(Algorithm algorithm) {
    return algorithm == Algorithm::pointwise      ? "GEMM"
           : algorithm == Algorithm::im2col_lines ? "implicit GEMM, kernel rows"
                                                  : "implicit GEMM";
  }

  void pad(const KernelArgs& args) const {
    const Padded padded(conv_.window);
    workers_.each(static_cast<std::size_t>(conv_.window.batch * padded.high), 32,
                  [&](std::size_t begin, std::size_t end) {
                    for (std::size_t at = begin; at < end; ++at)
                      padded.fill_row(conv_.window, floats(args, 0), static_cast<std::int64_t>(at),
                                      static_cast<float*>(args.scratch));
                  });
  }

  template <class Multiply>
  void run_group(const KernelArgs& args, std::int64_t group, const Multiply& multiply) const {
    const ImageWindow& w = conv_.window;
    const std::int64_t n = conv_.filters / conv_.groups, k = w.high.kernel * w.wide.kernel * depth_;
    const float* const residual = conv_.residual ? floats(args, 3) + group * n : nullptr;
    PackedGemm gemm{.m = w.outs(),
                    .n = n,
                    .segments = 1,
                    .depth = k,
                    .panels = as<float>(panels_).data() + group * panel_values(k, n),
                    .bias = bias_[static_cast<std::size_t>(group)].get(),
                    .c = static_cast<float*>(args.outputs[0]) + group * n,
                    .c_row = conv_.filters,
                    .residual = residual,
                    .activation = conv_.activation};
    const float* const x = floats(args, 0) + group * depth_;
    switch (algorithm()) {
      case Algorithm::pointwise: return multiply(gemm, MatrixRows(x, w.channels));
      case Algorithm::im2col:
        gemm.segments = w.high.kernel * w.wide.kernel, gemm.depth = depth_;
        return multiply(gemm, Im2colRows(w, x, zeros_.get()));
      case Algorithm::im2col_lines:
        gemm.segments = w.high.kernel, gemm.depth = w.wide.kernel * depth_;
        return multiply(gemm, Im2colLineRows(w, static_cast<const float*>(args.scratch)));
    }
  }

  compute::Workers& workers_;
  ConvNode conv_;
  std::int64_t depth_ = 0;
  Tensor panels_;
  std::vector<Floats> bias_;  // by group
  Floats zeros_;
  std::string name_;
};

std::unique_ptr<Kernel> make_conv(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const Tensor weights = constant(graph, node, 1), bias = constant(graph, node, 2);
  const bool has_bias = input_type(graph, node, 2).dtype != DType::none;
  if (!is_f32(x) || x.shape.rank() != 4 || weights.dtype() != DType::f32 ||
      (has_bias && bias.dtype() != DType::f32))
    return nullptr;
  const ConvNode conv{
      .window = image_window(node.attributes, x.shape, weights.shape()[2], weights.shape()[3]),
      .groups = node.attributes.integer("group", 1),
      .filters = weights.shape()[0],
      .weights = weights,
      .bias = bias,
      .residual = input_type(graph, node, 3).dtype != DType::none,
      .activation = activation_params_of(node.attributes)};
  if (auto kernel = make_depthwise(conv, context)) return kernel;
  if (auto kernel = make_winograd(conv, context)) return kernel;
  return std::make_unique<ConvKernel>(conv, context);
}

constexpr Maker kConvMakers[] = {
    {"AveragePool", "sluice", make_average_pool},
    {"Conv", "sluice", make_conv},
    {"MaxPool", "sluice", make_max_pool},
    {"ReduceMean", "", make_image_mean},
};

}  // namespace

std::span<const Maker> conv_kernels() { return kConvMakers; }

}  // namespace sluice::engine::cpu
