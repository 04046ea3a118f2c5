// Quantized GEMM and convolution. int8: one kernel with a fused epilogue. fp8, and int8 where that
// kernel does not run: cuBLASLt in chunks of rows, whose accumulators stay in the L2 cache until
// the epilogue has read them.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/exec/cuda/nodes/cublaslt_gemm.h"
#include "engine/exec/cuda/nodes/int8_gemm_tile.h"
#include "engine/exec/cuda/nodes/node_view.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"
#include "engine/ops/window.h"
#include "kernels/conv/space_to_depth.h"
#include "kernels/gemm/epilogue_params_sm90.h"
#include "kernels/gemm/gemm_sm90.h"
#include "kernels/gemm/tile_gemm.h"
#include "kernels/quantized/quantize.h"
#include "kernels/quantized/weights.h"

namespace sluice::engine::cuda {
namespace {

constexpr std::int64_t kMultiple = 16;                      // k and n are rounded up to it
constexpr std::int64_t kSumBytes = std::int64_t{24} << 20;  // of a chunk: half the L2 cache
constexpr std::int64_t kRowBytes = std::int64_t{64} << 20;
// Limit on a row of the fused kernel after its channels were rounded up.
constexpr std::int64_t kMaxFusedRowBytes = 4 * kTileGemmMaxRowBytes;

std::int64_t padded(std::int64_t x) { return (x + kMultiple - 1) / kMultiple * kMultiple; }
std::size_t round_up(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 255) / 256 * 256);
}

bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

GemmType gemm_type(DType type) {
  switch (type) {
    case DType::f32: return GemmType::f32;
    case DType::f16: return GemmType::f16;
    case DType::bf16: return GemmType::bf16;
    case DType::u8: return GemmType::u8;
    case DType::i8: return GemmType::i8;
    case DType::f8e4m3fn: return GemmType::f8e4m3;
    default: return GemmType::none;
  }
}

struct QuantizedGemm {
  std::unique_ptr<CublasltPlan> cublaslt;  // null: the fused kernel
  GemmTile tile = GemmTile::m128n128;      // of the fused kernel
  GemmType from = GemmType::u8;            // of x
  Im2col rows;                             // of one chunk
  bool needs_im2col = false;               // cuBLASLt: rows are written first, else read in place
  SpaceToDepthCall space_to_depth;         // fused kernel: applied to x; without channels: none
  GemmEpilogue epilogue;
  ConstMemory weight, compensation, scale_bias;
  std::int64_t m = 0, chunk = 0, k = 0;
  std::string kernel_name;
};

// Runs chunks of rows one after the other.
class QuantizedKernel : public Kernel {
 public:
  explicit QuantizedKernel(QuantizedGemm gemm) : gemm_(std::move(gemm)) {}
  void run(const KernelArgs& args) const override {
    for (std::int64_t row = 0; row < gemm_.m; row += gemm_.chunk)
      run_chunk(args, std::min(row, gemm_.m - gemm_.chunk));  // the last begins before the end
  }
  std::string_view name() const override { return gemm_.kernel_name; }
  bool reads_constant(std::size_t input) const override { return input != 1; }

 protected:
  virtual void run_chunk(const KernelArgs& args, std::int64_t row) const = 0;

  std::size_t im2col_bytes() const {
    return gemm_.needs_im2col ? round_up(gemm_.chunk * gemm_.rows.row_bytes) : 0;
  }

  void write_im2col(const KernelArgs& args, std::int64_t first) const {
    Im2col rows = gemm_.rows;
    rows.x = args.inputs[0];
    rows.to = args.scratch;
    rows.first = first;
    enqueue_im2col(rows, static_cast<CUstream_st*>(args.stream));
  }

  GemmEpilogue epilogue_for(const KernelArgs& args, std::int64_t row) const {
    const auto input = [&](std::size_t i) -> const std::byte* {
      return i < args.inputs.size() ? static_cast<const std::byte*>(args.inputs[i]) : nullptr;
    };
    GemmEpilogue f = gemm_.epilogue;
    f.compensation = static_cast<const std::int32_t*>(gemm_.compensation.get());
    f.scale = reinterpret_cast<const float*>(input(4));
    f.bias = reinterpret_cast<const float*>(input(2));
    const std::int64_t at = row * f.n;
    if (f.residual_type != GemmType::none) f.residual = input(3) + at * bytes_of(f.residual_type);
    f.y = static_cast<std::byte*>(args.outputs[0]) + at * bytes_of(f.to);
    return f;
  }

  QuantizedGemm gemm_;
};

// The call without the pointers of inputs and outputs.
TileGemmCall gemm_call(const QuantizedGemm& gemm) {
  return {.rows = gemm.rows,
          .from = gemm.from,
          .weight = gemm.weight.get(),
          .epilogue = gemm.epilogue,
          .scale_bias = static_cast<const ScaleBias*>(gemm.scale_bias.get()),
          .tile = gemm.tile};
}

class FusedGemmKernel final : public QuantizedKernel {
 public:
  using QuantizedKernel::QuantizedKernel;
  std::size_t scratch() const override { return round_up(bytes_of(gemm_.space_to_depth)); }

 private:
  void run_chunk(const KernelArgs& args, std::int64_t row) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    TileGemmCall call = gemm_call(gemm_);
    call.epilogue = epilogue_for(args, row);
    call.rows.x = args.inputs[0];
    if (SpaceToDepthCall transform = gemm_.space_to_depth; transform.channels > 0) {
      transform.x = args.inputs[0];
      transform.to = args.scratch;
      enqueue_space_to_depth(transform, stream);
      call.rows.x = args.scratch;
    }
    enqueue_tile_gemm(call, stream);
  }
};

class CublasltGemmKernel final : public QuantizedKernel {
 public:
  using QuantizedKernel::QuantizedKernel;
  std::size_t scratch() const override {
    return im2col_bytes() + sum_bytes() + gemm_.cublaslt->scratch();
  }

 private:
  std::size_t sum_bytes() const { return round_up(gemm_.chunk * gemm_.epilogue.sum_stride * 4); }

  void run_chunk(const KernelArgs& args, std::int64_t row) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    const void* a = static_cast<const std::byte*>(args.inputs[0]) + row * gemm_.k;
    if (gemm_.needs_im2col) {
      write_im2col(args, row);
      a = args.scratch;
    }
    std::byte* const sums = static_cast<std::byte*>(args.scratch) + im2col_bytes();
    gemm_.cublaslt->run({a, gemm_.weight.get(), nullptr, nullptr, sums, sums + sum_bytes()},
                        stream);
    GemmEpilogue f = epilogue_for(args, row);
    f.sums = sums;
    enqueue_gemm_epilogue(f, stream);
  }
};

ConstMemory upload(Context& context, const std::vector<std::int32_t>& compensation) {
  return context.constant(Tensor::of(std::span<const std::int32_t>(compensation)));
}

GemmEpilogue gemm_epilogue_of(const NodeView& view, std::int64_t n, bool residual_first) {
  const ActivationParams activation = activation_params_of(view.attributes());
  const QuantParams quant = quant_params_of(view.attributes());
  GemmEpilogue f;
  f.int32_sums = is_byte(view.in(0).dtype);
  f.sum_stride = padded(n);
  f.n = static_cast<int>(n);
  f.residual_type = view.has(3) ? gemm_type(view.in(3).dtype) : GemmType::none;
  f.to = gemm_type(quant.to);
  f.residual_scale = quant.residual_scale;
  f.to_scale = quant.to_scale;
  f.residual_zero = quant.residual_zero;
  f.to_zero = quant.to_zero;
  f.residual_first = residual_first;
  f.activation = activation.activation;
  f.low = activation.low;
  f.high = activation.high;
  const bool is_last = f.residual_type == GemmType::none || residual_first;
  if (f.activation == Activation::relu && is_last && f.to == GemmType::u8 && f.to_zero == 0)
    f.activation = Activation::none;  // saturation to u8 with zero point 0 is a relu
  return f;
}

// Prepares scale, bias and weights in the layout of the sm90 tiles.
void arrange_for_sm90(const NodeView& view, Context& context, QuantizedGemm& gemm,
                      const Tensor& weights, const std::vector<std::int32_t>& compensation) {
  const Tensor scale = view.constant(4), bias = view.constant(2);
  std::vector<ScaleBias> columns((compensation.size() + kMaxTileColumns - 1) / kMaxTileColumns *
                                 kMaxTileColumns);
  for (std::size_t i = 0; i < compensation.size(); ++i)
    columns[i] = sm90_scale_bias(gemm.epilogue, scale.values<float>()[i],
                                 bias ? bias.values<float>()[i] : 0, compensation[i]);
  const auto arranged = sm90_weight_order(weights.values<std::uint8_t>().data(), gemm.epilogue.n,
                                          gemm.rows.row_bytes);
  gemm.weight = context.constant(Tensor::of(std::span<const std::uint8_t>(arranged)));
  gemm.scale_bias = context.constant(Tensor::of(
      std::span<const float>(reinterpret_cast<const float*>(columns.data()), 2 * columns.size())));
}

std::unique_ptr<Kernel> make_fused_gemm(const NodeView& view, Context& context, QuantizedGemm gemm,
                                        const std::vector<std::uint8_t>& columns) {
  const auto n = static_cast<std::int64_t>(gemm.epilogue.n);
  const int zero = static_cast<int>(view.attributes().integer("zero", 0));
  gemm.chunk = gemm.rows.count = gemm.epilogue.rows = gemm.m;
  const Im2col before = gemm.rows;
  const bool uses_space_to_depth = before.channels % kMultiple != 0;
  if (uses_space_to_depth)
    gemm.space_to_depth = plan_space_to_depth(
        gemm.rows, gemm.m / (std::int64_t{before.out_height} * before.out_width));
  const Tensor weights =
      uses_space_to_depth ? pack_weight_rows(space_to_depth_weights(columns, n, before,
                                                                    gemm.space_to_depth, gemm.rows),
                                             n, gemm.rows.row_bytes, gemm.rows.row_bytes)
                          : pack_weight_rows(columns, n, gemm.k, gemm.rows.row_bytes);
  if (uses_space_to_depth) merge_row_pixels(gemm.rows);
  const std::vector<std::int32_t> compensation = zero_point_compensation(columns, n, gemm.k, zero);
  gemm.epilogue.has_large_compensation = exceeds_float_precision(compensation);
  gemm.weight = context.constant(weights);
  if (zero != 0) gemm.compensation = upload(context, compensation);
  gemm.tile = fastest_tile(context, gemm_call(gemm));
  if (is_sm90(gemm.tile)) arrange_for_sm90(view, context, gemm, weights, compensation);
  gemm.kernel_name = "int8 GEMM with fused epilogue";
  return std::make_unique<FusedGemmKernel>(std::move(gemm));
}

std::unique_ptr<Kernel> make_cublaslt_gemm(const NodeView& view, Context& context,
                                           QuantizedGemm gemm,
                                           const std::vector<std::uint8_t>& columns) {
  const bool bytes = is_byte(view.in(0).dtype);
  const auto n = static_cast<std::int64_t>(gemm.epilogue.n);
  const std::int64_t row = gemm.rows.row_bytes;
  gemm.rows.sign_flip = view.in(0).dtype == DType::u8 ? 0x80 : 0;
  gemm.needs_im2col = gemm.rows.sign_flip != 0 || row != gemm.k || !is_pointwise(gemm.rows);
  gemm.chunk = std::min({gemm.m, std::max<std::int64_t>(128, kSumBytes / (4 * padded(n))),
                         std::max<std::int64_t>(128, kRowBytes / row)});
  gemm.rows.count = gemm.epilogue.rows = gemm.chunk;
  gemm.cublaslt = plan_cublaslt(context, {.dtype = bytes ? DType::i8 : DType::f8e4m3fn,
                                          .m = gemm.chunk,
                                          .n = padded(n),
                                          .k = row,
                                          .transposed_b = true,
                                          .alignment = 16});  // a chunk begins at any row
  if (!gemm.cublaslt) return nullptr;
  const int zero = static_cast<int>(view.attributes().integer("zero", 0));
  const int zero_as_i8 = view.in(0).dtype == DType::u8 ? zero - 128 : zero;
  gemm.weight = context.constant(pack_weight_rows(columns, n, gemm.k, row));
  if (bytes && zero_as_i8 != 0)
    gemm.compensation = upload(context, zero_point_compensation(columns, n, gemm.k, zero_as_i8));
  gemm.kernel_name = std::string("cuBLASLt ") + (bytes ? "int8" : "fp8") + " GEMM, then epilogue";
  return std::make_unique<CublasltGemmKernel>(std::move(gemm));
}

// Whether the sizes are within the limits of the fused kernel.
bool fits_fused_gemm(const QuantizedGemm& gemm) {
  Im2col rows = gemm.rows;
  const std::int64_t batch = gemm.m / (std::int64_t{rows.out_height} * rows.out_width);
  if (rows.channels % kMultiple != 0) plan_space_to_depth(rows, batch);
  return gemm.m <= kTileGemmMaxRows && batch * rows.height * rows.width <= kTileGemmMaxRows &&
         gemm.k <= kTileGemmMaxRowBytes && rows.row_bytes <= kMaxFusedRowBytes;
}

std::unique_ptr<Kernel> make_gemm(const NodeView& view, Context& context, QuantizedGemm gemm,
                                  const std::vector<std::uint8_t>& columns) {
  gemm.from = gemm_type(view.in(0).dtype);
  const bool own = is_byte(view.in(0).dtype) &&
                   context.code_capability() >= kTileGemmMinCapability && fits_fused_gemm(gemm) &&
                   view.constant(4) && (!view.has(2) || view.constant(2));
  return (own ? make_fused_gemm : make_cublaslt_gemm)(view, context, std::move(gemm), columns);
}

bool takes(const NodeView& view, const Tensor& w) {
  const DType x = view.in(0).dtype;
  const DType residual = view.has(3) ? view.in(3).dtype : DType::f32;
  const bool fits =
      is_byte(x) ? w.dtype() == DType::i8 : x == DType::f8e4m3fn && w.dtype() == DType::f8e4m3fn;
  return fits && w.size() > 0 && view.has(4) && view.in(4).dtype == DType::f32 &&
         (!view.has(2) || view.in(2).dtype == DType::f32) &&
         (is_computed_real(residual) || is_byte(residual)) &&
         gemm_type(view.out(0).dtype) != GemmType::none;
}

std::unique_ptr<Kernel> linear(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const Tensor w = view.constant(1);
  if (!w || w.rank() != 2 || !takes(view, w)) return nullptr;
  if (view.out(0).shape.size() == 0) return nothing_to_do();
  const std::int64_t k = w.shape()[0], n = w.shape()[1];
  const auto* const from = static_cast<const std::uint8_t*>(w.data());
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(k * n));
  for (std::int64_t i = 0; i < k * n; ++i)
    columns[static_cast<std::size_t>(i % n * k + i / n)] = from[i];
  QuantizedGemm gemm;
  gemm.m = view.in(0).shape.size() / k;
  gemm.k = k;
  gemm.rows.row_bytes = padded(k);
  gemm.rows.channels = gemm.rows.pixel_stride = static_cast<int>(k);
  gemm.epilogue = gemm_epilogue_of(view, n, false);
  return make_gemm(view, context, std::move(gemm), columns);
}

void set_window(Im2col& rows, const Shape& in, const Window::Axis& high, const Window::Axis& wide) {
  const auto number = [](std::int64_t size) { return static_cast<int>(size); };
  rows.height = number(in[1]), rows.width = number(in[2]);
  rows.channels = rows.pixel_stride = number(in[3]);
  rows.out_height = number(high.out), rows.out_width = number(wide.out);
  rows.kernel_height = number(high.kernel), rows.kernel_width = number(wide.kernel);
  rows.stride_y = number(high.stride), rows.stride_x = number(wide.stride);
  rows.dilation_y = number(high.dilation), rows.dilation_x = number(wide.dilation);
  rows.pad_top = number(high.before), rows.pad_left = number(wide.before);
}

std::unique_ptr<Kernel> conv(const Graph& graph, const Node& node, Context& context) {
  const NodeView view(graph, node);
  const Tensor w = view.constant(1);
  if (!w || w.rank() != 4 || !takes(view, w)) return nullptr;
  const Shape in = view.in(0).shape, out = view.out(0).shape;
  if (out.size() == 0) return nothing_to_do();
  const Window window = read_window(node.attributes, {in[0], in[3], in[1], in[2]}, w);
  const Window::Axis &high = window.axes()[0], &wide = window.axes()[1];
  const std::int64_t n = w.shape()[0], in_channels = w.shape()[1], taps = high.kernel * wide.kernel;
  const std::vector<std::uint8_t> columns = channels_last(w);
  QuantizedGemm gemm;
  gemm.m = out.size() / n;
  gemm.k = in_channels * taps;
  gemm.rows.row_bytes = padded(gemm.k);
  set_window(gemm.rows, in, high, wide);
  gemm.rows.pad_value = static_cast<unsigned char>(view.attributes().integer("zero", 0));
  gemm.epilogue = gemm_epilogue_of(view, n, true);
  return make_gemm(view, context, std::move(gemm), columns);
}

// QuantizeLinear with one scale; an element program quantizes others, and f32 to integers.
std::unique_ptr<Kernel> quantize(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto scale = view.number(1), zero = view.has(2) ? view.number(2) : 0.0;
  QuantizeCall all{.count = view.in(0).shape.size(),
                   .from = gemm_type(view.in(0).dtype),
                   .to = gemm_type(view.out(0).dtype)};
  if (!is_computed_real(view.in(0).dtype) || bytes_of(all.to) != 1 || all.to == GemmType::none ||
      !scale || !zero || view.attributes().integer("block_size", 0) != 0)
    return nullptr;
  all.scale = static_cast<float>(*scale);
  all.zero = static_cast<int>(*zero);
  return launched(
      "quantize",
      [all](const KernelArgs& args) {
        QuantizeCall own = all;
        own.x = args.inputs[0];
        own.y = args.outputs[0];
        enqueue_quantize(own, static_cast<CUstream_st*>(args.stream));
      },
      1);
}

std::unique_ptr<Kernel> dequantize_fp8(const Graph& graph, const Node& node, Context&) {
  const NodeView view(graph, node);
  const auto scale = view.number(1);
  if (view.in(0).dtype != DType::f8e4m3fn || view.out(0).dtype != DType::f32 || !scale)
    return nullptr;
  return launched(
      "dequantize fp8",
      [count = view.in(0).shape.size(), by = static_cast<float>(*scale)](const KernelArgs& args) {
        enqueue_dequantize_fp8(args.inputs[0], static_cast<float*>(args.outputs[0]), count, by,
                               static_cast<CUstream_st*>(args.stream));
      },
      1);
}

constexpr Maker kQuantizedMakers[] = {
    {"DequantizeLinear", "", dequantize_fp8},
    {"QuantizeLinear", "", quantize},
    {"QuantizedConv", kFused, conv},
    {"QuantizedLinear", kFused, linear},
};

}  // namespace

std::span<const Maker> quantized_kernels() { return kQuantizedMakers; }

}  // namespace sluice::engine::cuda
