// int8 GEMM and convolution, QuantizeLinear and DequantizeLinear.
#include <string>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/image_window.h"
#include "engine/exec/cpu/nodes.h"
#include "engine/graph/fused_ops.h"
#include "engine/ops/op.h"
#include "kernels/conv/channelwise_cpu.h"
#include "kernels/gemm/int8_gemm_cpu.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::int64_t kMaxDepth = 60'000;  // 32-bit accumulators cannot overflow

bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

class Int8MatrixRows final : public Int8Rows {
 public:
  Int8MatrixRows(const void* data, std::int64_t k)
      : data_(static_cast<const std::uint8_t*>(data)), k_(k) {}

  void point(std::int64_t first, std::int64_t count, const std::uint8_t** to) const override {
    for (std::int64_t i = 0; i < count; ++i) to[i] = data_ + (first + i) * k_;
  }
  void write(std::int64_t row, Int8RowWriter& to) const override {
    to.put(data_ + row * k_, k_);
    to.end_run();
  }

 private:
  const std::uint8_t* data_;
  std::int64_t k_;
};

// The im2col rows of a convolution. A run is one tap of the kernel or, with `lines`, one row of it,
// which has to be written. Padding is x's zero point.
class Int8ImageRows final : public Int8Rows {
 public:
  Int8ImageRows(const ImageWindow& window, const void* x, const std::uint8_t* zeros, bool lines)
      : w_(window), x_(static_cast<const std::uint8_t*>(x)), zeros_(zeros), lines_(lines) {}

  void point(std::int64_t first, std::int64_t count, const std::uint8_t** to) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const At at = pixel_of(first + i);
      for (std::int64_t r = 0; r < w_.high.kernel; ++r)
        for (std::int64_t c = 0; c < w_.wide.kernel; ++c)
          to[(r * w_.wide.kernel + c) * count + i] = pixel(at, r, c);
    }
  }

  void write(std::int64_t row, Int8RowWriter& to) const override {
    const At at = pixel_of(row);
    for (std::int64_t r = 0; r < w_.high.kernel; ++r) {
      if (lines_) {
        write_line(at, r, to);
        continue;
      }
      for (std::int64_t c = 0; c < w_.wide.kernel; ++c) {
        to.put(pixel(at, r, c), w_.channels);
        to.end_run();
      }
    }
  }

 private:
  struct At {
    const std::uint8_t* image;
    std::int64_t top, left;
  };

  At pixel_of(std::int64_t row) const {
    const std::int64_t column = row % w_.wide.out, line = row / w_.wide.out;
    return {x_ + line / w_.high.out * w_.high.in * w_.wide.in * w_.channels,
            w_.high.start(line % w_.high.out), w_.wide.start(column)};
  }

  const std::uint8_t* pixel(const At& at, std::int64_t r, std::int64_t c) const {
    const std::int64_t y = at.top + r * w_.high.dilation, x = at.left + c * w_.wide.dilation;
    const bool inside = y >= 0 && y < w_.high.in && x >= 0 && x < w_.wide.in;
    return inside ? at.image + (y * w_.wide.in + x) * w_.channels : zeros_;
  }

  // The taps of a kernel row are contiguous in memory.
  void write_line(const At& at, std::int64_t r, Int8RowWriter& to) const {
    const std::int64_t y = at.top + r * w_.high.dilation;
    const bool inside = y >= 0 && y < w_.high.in;
    const std::int64_t first = inside ? w_.wide.first(at.left) : w_.wide.kernel;
    const std::int64_t last = inside ? std::max(first, w_.wide.last(at.left)) : first;
    for (std::int64_t c = 0; c < first; ++c) to.put(zeros_, w_.channels);
    if (last > first) to.put(pixel(at, r, first), (last - first) * w_.channels);
    for (std::int64_t c = last; c < w_.wide.kernel; ++c) to.put(zeros_, w_.channels);
    to.end_run();
  }

  const ImageWindow& w_;
  const std::uint8_t *x_, *zeros_;
  bool lines_;
};

// The common part of GEMM and convolution.
class Int8Kernel : public Kernel {
 public:
  Int8Kernel(const Graph& graph, const Node& node, std::int64_t n, bool residual_first,
             Context& context)
      : workers_(context.workers),
        has_sign_(input_type(graph, node, 0).dtype == DType::i8),
        zero_(static_cast<int>(node.attributes.integer("zero", 0)) + (has_sign_ ? 128 : 0)),
        scale_(int8_columns(n, as<float>(constant(graph, node, 4)).data())) {
    const Tensor bias = constant(graph, node, 2);
    bias_ = int8_columns(n, bias ? as<float>(bias).data() : nullptr);
    epilogue_ = {.scale = scale_.data(),
                 .bias = bias_.data(),
                 .activation = activation_params_of(node.attributes),
                 .quant = quant_params_of(node.attributes),
                 .residual_type = input_type(graph, node, 3).dtype,
                 .residual_first = residual_first};
    name_ = int8_shape().value_bytes == 1 ? "int8 GEMM" : "int8 GEMM in int16";
    if (bias) name_ += " + bias";
    if (epilogue_.residual_type != DType::none && residual_first) name_ += " + residual";
    if (epilogue_.activation.activation != Activation::none)
      name_ += " + " + std::string(to_string(epilogue_.activation.activation));
    if (epilogue_.residual_type != DType::none && !residual_first) name_ += " + residual";
    if (epilogue_.quant.to != DType::f32) name_ += " + quantize";
  }

  std::string_view name() const override { return name_; }
  std::size_t scratch() const override {
    return int8_scratch(workers_, weights_.depth, reads_in_place());
  }
  bool reads_constant(std::size_t input) const override { return input == 0 || input == 3; }
  // A residual element is read before its result is written.
  int in_place() const override {
    if (epilogue_.residual_type == DType::none) return -1;
    return bytes(epilogue_.residual_type) == bytes(epilogue_.quant.to) ? 3 : -1;
  }

 protected:
  void lay_out(const Tensor& weights, const Int8Depth& depth, std::int64_t n,
               std::string_view layout, const Int8At& at, Context& context) {
    weights_ = {depth, n, {}, int8_compensation(depth, n, zero_, at)};
    weights_.panels = context.packed(weights, int8_panel_format(layout),
                                     {DType::u8, {static_cast<std::int64_t>(weights_.bytes())}},
                                     [&] { return int8_panels(depth, n, at); });
  }

  // Whether rows of x are read without being copied first.
  bool reads_in_place() const {
    const Int8Shape shape = int8_shape();
    return !lines_ && shape.value_bytes == 1 && !has_sign_ && weights_.depth.depth % 4 == 0;
  }

  void multiply_rows(const KernelArgs& args, std::int64_t m, const Int8Rows& rows) const {
    int8_gemm(workers_,
              {.m = m,
               .weights = &weights_,
               .epilogue = &epilogue_,
               .residual = epilogue_.residual_type == DType::none ? nullptr : args.inputs[3],
               .c = args.outputs[0],
               .in_place_rows = reads_in_place(),
               .has_sign = has_sign_,
               .scratch = static_cast<std::uint8_t*>(args.scratch)},
              rows);
  }

  compute::Workers& workers_;
  bool has_sign_;
  int zero_;            // zero point of x as u8
  bool lines_ = false;  // a run is a row of a kernel, which is put together from x and padding
  std::vector<float> scale_, bias_;
  Int8Epilogue epilogue_;
  Int8Weights weights_{};
  std::string name_;
};

class Int8Linear final : public Int8Kernel {
 public:
  Int8Linear(const Graph& graph, const Node& node, const Tensor& w, Context& context)
      : Int8Kernel(graph, node, w.shape()[1], false, context), k_(w.shape()[0]) {
    m_ = input_type(graph, node, 0).shape.size() / std::max<std::int64_t>(1, k_);
    const std::int8_t* const from = as<std::int8_t>(w).data();
    const std::int64_t n = w.shape()[1];
    lay_out(
        w, {1, k_}, n, "matmul,",
        [=](std::int64_t, std::int64_t d, std::int64_t column) { return from[d * n + column]; },
        context);
  }

  void run(const KernelArgs& args) const override {
    multiply_rows(args, m_, Int8MatrixRows(args.inputs[0], k_));
  }

 private:
  std::int64_t m_, k_;
};

class Int8Conv final : public Int8Kernel {
 public:
  Int8Conv(const Graph& graph, const Node& node, const Tensor& w, Context& context)
      : Int8Kernel(graph, node, w.shape()[0], true, context),
        window_(image_window(node.attributes, input_type(graph, node, 0).shape, w.shape()[2],
                             w.shape()[3])),
        zeros_(static_cast<std::size_t>(w.shape()[1]),
               static_cast<std::uint8_t>(node.attributes.integer("zero", 0))) {
    const std::int64_t in_channels = w.shape()[1], rows = w.shape()[2], columns = w.shape()[3];
    const bool bytes = int8_shape().value_bytes == 1 && !has_sign_ && in_channels % 4 == 0;
    lines_ = !bytes && window_.wide.dilation == 1;
    const std::int8_t* const from = as<std::int8_t>(w).data();
    const std::int64_t taps = rows * columns;
    const auto by_tap = [=](std::int64_t s, std::int64_t d, std::int64_t filter) {
      return from[(filter * in_channels + d) * taps + s];
    };
    if (lines_)
      lay_out(
          w, {rows, columns * in_channels}, w.shape()[0], "lines,",
          [=](std::int64_t s, std::int64_t d, std::int64_t filter) {
            return by_tap(s * columns + d / in_channels, d % in_channels, filter);
          },
          context);
    else
      lay_out(w, {taps, in_channels}, w.shape()[0], "taps,", by_tap, context);
  }

  void run(const KernelArgs& args) const override {
    multiply_rows(args, window_.outs(),
                  Int8ImageRows(window_, args.inputs[0], zeros_.data(), lines_));
  }

 private:
  ImageWindow window_;
  std::vector<std::uint8_t> zeros_;
};

bool has_constants(const Graph& graph, const Node& node) {
  const auto is = [&](std::size_t i, DType type) {
    return constant(graph, node, i).dtype() == type;
  };
  const DType bias = input_type(graph, node, 2).dtype, residual = input_type(graph, node, 3).dtype;
  const DType to = quant_params_of(node.attributes).to;
  return is_byte(input_type(graph, node, 0).dtype) && is(1, DType::i8) && is(4, DType::f32) &&
         (bias == DType::none || is(2, DType::f32)) && (to == DType::f32 || is_byte(to)) &&
         (residual == DType::none || residual == DType::f32 || is_byte(residual));
}

std::unique_ptr<Kernel> make_int8_linear(const Graph& graph, const Node& node, Context& context) {
  if (!has_constants(graph, node)) return nullptr;
  const Tensor w = constant(graph, node, 1);
  if (w.rank() != 2 || w.shape()[0] > kMaxDepth || w.size() == 0) return nullptr;
  return std::make_unique<Int8Linear>(graph, node, w, context);
}

std::unique_ptr<Kernel> make_int8_conv(const Graph& graph, const Node& node, Context& context) {
  if (!has_constants(graph, node)) return nullptr;
  const Tensor w = constant(graph, node, 1);
  if (w.rank() != 4 || w.size() == 0 || w.size() / w.shape()[0] > kMaxDepth) return nullptr;
  return std::make_unique<Int8Conv>(graph, node, w, context);
}

// ---- quantize ----------------------------------------------------------------------------

constexpr std::size_t kQuantizeGrain = 64 << 10;  // less is not worth another thread

class QuantizeKernel final : public Kernel {
 public:
  QuantizeKernel(std::size_t count, const QuantParams& params, Context& context)
      : workers_(context.workers), count_(count), quant_(params) {}

  void run(const KernelArgs& args) const override {
    const float* const from = floats(args, 0);
    auto* const to = static_cast<std::uint8_t*>(args.outputs[0]);
    workers_.each(count_, kQuantizeGrain, [&](std::size_t begin, std::size_t end) {
      quantize_linear(from + begin, end - begin, quant_, to + begin);
    });
  }
  std::string_view name() const override { return "quantize"; }
  bool reads_constant(std::size_t input) const override { return input == 0; }

 private:
  compute::Workers& workers_;
  std::size_t count_;
  QuantParams quant_;
};

class DequantizeKernel final : public Kernel {
 public:
  DequantizeKernel(const TensorType& type, float scale, int zero, Context& context)
      : workers_(context.workers), type_(type), scale_(scale), zero_(zero) {}

  void run(const KernelArgs& args) const override {
    const auto* const from = static_cast<const std::uint8_t*>(args.inputs[0]);
    auto* const to = static_cast<float*>(args.outputs[0]);
    workers_.each(static_cast<std::size_t>(type_.shape.size()), kQuantizeGrain,
                  [&](std::size_t begin, std::size_t end) {
                    dequantize_linear(from + begin, end - begin, type_.dtype, scale_, zero_,
                                      to + begin);
                  });
  }
  std::string_view name() const override { return "dequantize"; }
  bool reads_constant(std::size_t input) const override { return input == 0; }

 private:
  compute::Workers& workers_;
  TensorType type_;
  float scale_;
  int zero_;
};

// Scale and zero point of a per-tensor quantized node; none for other granularities or types.
std::optional<QuantParams> per_tensor_params(const Graph& graph, const Node& node,
                                             DType quantized) {
  const Tensor scale = constant(graph, node, 1), zero = constant(graph, node, 2);
  const bool has_zero = input_type(graph, node, 2).dtype != DType::none;
  if (!is_byte(quantized) || scale.dtype() != DType::f32 || scale.size() != 1 ||
      node.attributes.integer("block_size", 0) != 0 || (has_zero && zero.size() != 1) ||
      (has_zero && zero.dtype() != quantized))
    return {};
  QuantParams params{.to_scale = as<float>(scale)[0], .to = quantized};
  if (has_zero)
    params.to_zero = quantized == DType::i8 ? as<std::int8_t>(zero)[0] : as<std::uint8_t>(zero)[0];
  return params;
}

std::unique_ptr<Kernel> make_quantize(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const auto params = per_tensor_params(graph, node, type_of(graph[node.outputs[0]]).dtype);
  if (!is_f32(x) || !params || node.attributes.has("precision")) return nullptr;
  return std::make_unique<QuantizeKernel>(static_cast<std::size_t>(x.shape.size()), *params,
                                          context);
}

std::unique_ptr<Kernel> make_dequantize(const Graph& graph, const Node& node, Context& context) {
  const TensorType x = input_type(graph, node, 0);
  const auto params = per_tensor_params(graph, node, x.dtype);
  if (!params || !is_f32(type_of(graph[node.outputs[0]]))) return nullptr;
  return std::make_unique<DequantizeKernel>(x, params->to_scale, params->to_zero, context);
}

constexpr Maker kInt8Makers[] = {
    {"DequantizeLinear", "", make_dequantize},
    {"QuantizeLinear", "", make_quantize},
    {"QuantizedConv", "sluice", make_int8_conv},
    {"QuantizedLinear", "sluice", make_int8_linear},
};

}  // namespace

std::span<const Maker> int8_kernels() { return kInt8Makers; }

}  // namespace sluice::engine::cpu
