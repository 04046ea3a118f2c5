// Products and convolutions of small numbers. Of bytes: one kernel of ours. Of floats of 8 bits,
// and where it does not run: cuBLASLt, in stretches of rows whose sums stay in the GPU's cache
// until they are finished.
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
#include "kernels/quantized/epilogue_params_sm90.h"
#include "kernels/quantized/int8_gemm.h"
#include "kernels/quantized/int8_gemm_sm90.h"
#include "kernels/quantized/weights.h"

namespace sluice::engine::cuda {
namespace {

constexpr std::int64_t kTogether = 16;                      // what k and n are rounded up to
constexpr std::int64_t kSumBytes = std::int64_t{24} << 20;  // of a stretch: half the cache
constexpr std::int64_t kRowBytes = std::int64_t{64} << 20;
// Of a row for our own kernel, whose channels were rounded up.
constexpr std::int64_t kOwnRowBytes = 4 * kSmallProductBytes;

std::int64_t up(std::int64_t x) { return (x + kTogether - 1) / kTogether * kTogether; }
std::size_t round_up(std::int64_t bytes) {
  return static_cast<std::size_t>((bytes + 255) / 256 * 256);
}

bool is_byte(DType type) { return type == DType::u8 || type == DType::i8; }

SmallType small_type(DType type) {
  switch (type) {
    case DType::f32: return SmallType::f32;
    case DType::f16: return SmallType::f16;
    case DType::bf16: return SmallType::bf16;
    case DType::u8: return SmallType::u8;
    case DType::i8: return SmallType::i8;
    case DType::f8e4m3fn: return SmallType::f8e4m3;
    default: return SmallType::none;
  }
}

struct Parts {
  std::unique_ptr<ProductPlan> product;  // null: our own kernel
  SmallTile tile = SmallTile::large;     // of that
  SmallType from = SmallType::u8;        // x
  SmallRows rows;                        // of one stretch
  bool writes = false;                   // rows are written; read where they lie otherwise
  SmallFold fold;                        // for our own kernel: what is read; no channels: x itself
  SmallFinish finish;
  ConstMemory weight, shift, columns;
  std::int64_t m = 0, stretch = 0, k = 0;
  std::string what;
};

// In stretches of rows, one after the other.
class QuantizedKernel : public Kernel {
 public:
  explicit QuantizedKernel(Parts parts) : p_(std::move(parts)) {}
  void run(const KernelArgs& args) const override {
    for (std::int64_t row = 0; row < p_.m; row += p_.stretch)
      run_stretch(args, std::min(row, p_.m - p_.stretch));  // the last begins before the end
  }
  std::string_view what() const override { return p_.what; }
  bool reads_constant(std::size_t input) const override { return input != 1; }

 protected:
  virtual void run_stretch(const KernelArgs& args, std::int64_t row) const = 0;

  std::size_t written_bytes() const { return p_.writes ? round_up(p_.stretch * p_.rows.row) : 0; }

  void write_rows(const KernelArgs& args, std::int64_t first) const {
    SmallRows rows = p_.rows;
    rows.x = args.inputs[0];
    rows.to = args.scratch;
    rows.first = first;
    enqueue(rows, static_cast<CUstream_st*>(args.stream));
  }

  SmallFinish finish_from(const KernelArgs& args, std::int64_t row) const {
    const auto input = [&](std::size_t i) -> const std::byte* {
      return i < args.inputs.size() ? static_cast<const std::byte*>(args.inputs[i]) : nullptr;
    };
    SmallFinish f = p_.finish;
    f.shift = static_cast<const std::int32_t*>(p_.shift.get());
    f.scale = reinterpret_cast<const float*>(input(4));
    f.bias = reinterpret_cast<const float*>(input(2));
    const std::int64_t at = row * f.n;
    if (f.residual_type != SmallType::none) f.residual = input(3) + at * bytes_of(f.residual_type);
    f.y = static_cast<std::byte*>(args.outputs[0]) + at * bytes_of(f.to);
    return f;
  }

  Parts p_;
};

// Without what comes with the arguments.
SmallProduct product_of(const Parts& parts) {
  return {.rows = parts.rows,
          .from = parts.from,
          .weight = parts.weight.get(),
          .finish = parts.finish,
          .columns = static_cast<const SmallColumn*>(parts.columns.get()),
          .tile = parts.tile};
}

class OwnProduct final : public QuantizedKernel {
 public:
  using QuantizedKernel::QuantizedKernel;
  std::size_t scratch() const override { return round_up(bytes_of(p_.fold)); }

 private:
  void run_stretch(const KernelArgs& args, std::int64_t row) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    SmallProduct product = product_of(p_);
    product.finish = finish_from(args, row);
    product.rows.x = args.inputs[0];
    if (SmallFold fold = p_.fold; fold.channels > 0) {
      fold.x = args.inputs[0];
      fold.to = args.scratch;
      enqueue(fold, stream);
      product.rows.x = args.scratch;
    }
    enqueue(product, stream);
  }
};

class LibraryProduct final : public QuantizedKernel {
 public:
  using QuantizedKernel::QuantizedKernel;
  std::size_t scratch() const override {
    return written_bytes() + sum_bytes() + p_.product->scratch();
  }

 private:
  std::size_t sum_bytes() const { return round_up(p_.stretch * p_.finish.sum_row * 4); }

  void run_stretch(const KernelArgs& args, std::int64_t row) const override {
    auto* const stream = static_cast<CUstream_st*>(args.stream);
    const void* a = static_cast<const std::byte*>(args.inputs[0]) + row * p_.k;
    if (p_.writes) {
      write_rows(args, row);
      a = args.scratch;
    }
    std::byte* const sums = static_cast<std::byte*>(args.scratch) + written_bytes();
    p_.product->run({a, p_.weight.get(), nullptr, nullptr, sums, sums + sum_bytes()}, stream);
    SmallFinish f = finish_from(args, row);
    f.sums = sums;
    enqueue(f, stream);
  }
};

ConstMemory upload(Context& context, const std::vector<std::int32_t>& shift) {
  return context.constant(Tensor::of(std::span<const std::int32_t>(shift)));
}

SmallFinish finish_of(const Site& site, std::int64_t n, bool residual_first) {
  const Epilogue epilogue = epilogue_of(site.attributes());
  const QuantParams rounding = quant_params_of(site.attributes());
  SmallFinish f;
  f.whole = is_byte(site.in(0).dtype);
  f.sum_row = up(n);
  f.n = static_cast<int>(n);
  f.residual_type = site.has(3) ? small_type(site.in(3).dtype) : SmallType::none;
  f.to = small_type(rounding.to);
  f.residual_scale = rounding.residual_scale;
  f.to_scale = rounding.to_scale;
  f.residual_zero = rounding.residual_zero;
  f.to_zero = rounding.to_zero;
  f.residual_first = residual_first;
  f.activation = epilogue.activation;
  f.low = epilogue.low;
  f.high = epilogue.high;
  const bool is_last = f.residual_type == SmallType::none || residual_first;
  if (f.activation == Activation::relu && is_last && f.to == SmallType::u8 && f.to_zero == 0)
    f.activation = Activation::none;  // steps from 0 on begin there
  return f;
}

// For a tile of Hopper: columns as it finishes them, and weights in its order.
void arrange_for_hopper(const Site& site, Context& context, Parts& parts, const Tensor& weights,
                        const std::vector<std::int32_t>& shift) {
  const Tensor scale = site.constant(4), bias = site.constant(2);
  std::vector<SmallColumn> columns((shift.size() + kMostColumns - 1) / kMostColumns * kMostColumns);
  for (std::size_t i = 0; i < shift.size(); ++i)
    columns[i] = hopper_column(parts.finish, scale.values<float>()[i],
                               bias ? bias.values<float>()[i] : 0, shift[i]);
  const auto arranged =
      in_hopper_order(weights.values<std::uint8_t>().data(), parts.finish.n, parts.rows.row);
  parts.weight = context.constant(Tensor::of(std::span<const std::uint8_t>(arranged)));
  parts.columns = context.constant(Tensor::of(
      std::span<const float>(reinterpret_cast<const float*>(columns.data()), 2 * columns.size())));
}

std::unique_ptr<Kernel> own_product(const Site& site, Context& context, Parts parts,
                                    const std::vector<std::uint8_t>& columns) {
  const auto n = static_cast<std::int64_t>(parts.finish.n);
  const int zero = static_cast<int>(site.attributes().integer("zero", 0));
  parts.stretch = parts.rows.count = parts.finish.rows = parts.m;
  const SmallRows before = parts.rows;
  const bool folds = before.channels % kTogether != 0;
  if (folds)
    parts.fold = fold_for(parts.rows, parts.m / (std::int64_t{before.out_high} * before.out_wide));
  const Tensor weights = folds ? packed_weights(folded(columns, n, before, parts.fold, parts.rows),
                                                n, parts.rows.row, parts.rows.row)
                               : packed_weights(columns, n, parts.k, parts.rows.row);
  if (folds) join_pixels(parts.rows);
  const std::vector<std::int32_t> shift = shift_of(columns, n, parts.k, zero);
  parts.finish.has_large_shift = is_large(shift);
  parts.weight = context.constant(weights);
  if (zero != 0) parts.shift = upload(context, shift);
  parts.tile = quickest_tile(context, product_of(parts));
  if (is_on_hopper(parts.tile)) arrange_for_hopper(site, context, parts, weights, shift);
  parts.what = "product of bytes with all that follows";
  return std::make_unique<OwnProduct>(std::move(parts));
}

std::unique_ptr<Kernel> library_product(const Site& site, Context& context, Parts parts,
                                        const std::vector<std::uint8_t>& columns) {
  const bool bytes = is_byte(site.in(0).dtype);
  const auto n = static_cast<std::int64_t>(parts.finish.n);
  const std::int64_t row = parts.rows.row;
  parts.rows.flip = site.in(0).dtype == DType::u8 ? 0x80 : 0;
  parts.writes = parts.rows.flip != 0 || row != parts.k || !lies_as_rows(parts.rows);
  parts.stretch = std::min({parts.m, std::max<std::int64_t>(128, kSumBytes / (4 * up(n))),
                            std::max<std::int64_t>(128, kRowBytes / row)});
  parts.rows.count = parts.finish.rows = parts.stretch;
  parts.product = plan_product(context, {.dtype = bytes ? DType::i8 : DType::f8e4m3fn,
                                         .m = parts.stretch,
                                         .n = up(n),
                                         .k = row,
                                         .transposed_b = true,
                                         .alignment = 16});  // a stretch begins at any row
  if (!parts.product) return nullptr;
  const int zero = static_cast<int>(site.attributes().integer("zero", 0));
  const int shifted = site.in(0).dtype == DType::u8 ? zero - 128 : zero;
  parts.weight = context.constant(packed_weights(columns, n, parts.k, row));
  if (bytes && shifted != 0) parts.shift = upload(context, shift_of(columns, n, parts.k, shifted));
  parts.what = std::string("cuBLASLt product of ") + (bytes ? "bytes" : "fp8") + ", then the rest";
  return std::make_unique<LibraryProduct>(std::move(parts));
}

// Whether our own kernel can count and keep what it reads.
bool is_small_enough(const Parts& parts) {
  SmallRows rows = parts.rows;
  const std::int64_t batch = parts.m / (std::int64_t{rows.out_high} * rows.out_wide);
  if (rows.channels % kTogether != 0) fold_for(rows, batch);
  return parts.m <= kMostSmallRows && batch * rows.high * rows.wide <= kMostSmallRows &&
         parts.k <= kSmallProductBytes && rows.row <= kOwnRowBytes;
}

std::unique_ptr<Kernel> made(const Site& site, Context& context, Parts parts,
                             const std::vector<std::uint8_t>& columns) {
  parts.from = small_type(site.in(0).dtype);
  const bool own = is_byte(site.in(0).dtype) && context.capability() >= kSmallProductCapability &&
                   is_small_enough(parts) && site.constant(4) && (!site.has(2) || site.constant(2));
  return (own ? own_product : library_product)(site, context, std::move(parts), columns);
}

bool takes(const Site& site, const Tensor& w) {
  const DType x = site.in(0).dtype;
  const DType residual = site.has(3) ? site.in(3).dtype : DType::f32;
  const bool fits =
      is_byte(x) ? w.dtype() == DType::i8 : x == DType::f8e4m3fn && w.dtype() == DType::f8e4m3fn;
  return fits && w.size() > 0 && site.has(4) && site.in(4).dtype == DType::f32 &&
         (!site.has(2) || site.in(2).dtype == DType::f32) &&
         (is_computed_real(residual) || is_byte(residual)) &&
         small_type(site.out(0).dtype) != SmallType::none;
}

std::unique_ptr<Kernel> linear(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  const Tensor w = site.constant(1);
  if (!w || w.rank() != 2 || !takes(site, w)) return nullptr;
  if (site.out(0).shape.size() == 0) return nothing_to_do();
  const std::int64_t k = w.shape()[0], n = w.shape()[1];
  const auto* const from = static_cast<const std::uint8_t*>(w.data());
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(k * n));
  for (std::int64_t i = 0; i < k * n; ++i)
    columns[static_cast<std::size_t>(i % n * k + i / n)] = from[i];
  Parts parts;
  parts.m = site.in(0).shape.size() / k;
  parts.k = k;
  parts.rows.row = up(k);
  parts.rows.channels = parts.rows.pixel = static_cast<int>(k);
  parts.finish = finish_of(site, n, false);
  return made(site, context, std::move(parts), columns);
}

void set_window(SmallRows& rows, const Shape& in, const Window::Axis& high,
                const Window::Axis& wide) {
  const auto number = [](std::int64_t size) { return static_cast<int>(size); };
  rows.high = number(in[1]), rows.wide = number(in[2]);
  rows.channels = rows.pixel = number(in[3]);
  rows.out_high = number(high.out), rows.out_wide = number(wide.out);
  rows.kernel_high = number(high.kernel), rows.kernel_wide = number(wide.kernel);
  rows.stride_high = number(high.stride), rows.stride_wide = number(wide.stride);
  rows.dilation_high = number(high.dilation), rows.dilation_wide = number(wide.dilation);
  rows.top = number(high.before), rows.left = number(wide.before);
}

std::unique_ptr<Kernel> conv(const Graph& graph, const Node& node, Context& context) {
  const Site site(graph, node);
  const Tensor w = site.constant(1);
  if (!w || w.rank() != 4 || !takes(site, w)) return nullptr;
  const Shape in = site.in(0).shape, out = site.out(0).shape;
  if (out.size() == 0) return nothing_to_do();
  const Window window = read_window(node.attributes, {in[0], in[3], in[1], in[2]}, w);
  const Window::Axis &high = window.axes()[0], &wide = window.axes()[1];
  const std::int64_t n = w.shape()[0], ins = w.shape()[1], places = high.kernel * wide.kernel;
  const std::vector<std::uint8_t> columns = channels_last(w);
  Parts parts;
  parts.m = out.size() / n;
  parts.k = ins * places;
  parts.rows.row = up(parts.k);
  set_window(parts.rows, in, high, wide);
  parts.rows.outside = static_cast<unsigned char>(site.attributes().integer("zero", 0));
  parts.finish = finish_of(site, n, true);
  return made(site, context, std::move(parts), columns);
}

// Of one scale; of others, and of f32 as whole numbers, there are kernels elsewhere.
std::unique_ptr<Kernel> steps(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto scale = site.number(1), zero = site.has(2) ? site.number(2) : 0.0;
  SmallSteps all{.count = site.in(0).shape.size(),
                 .from = small_type(site.in(0).dtype),
                 .to = small_type(site.out(0).dtype)};
  if (!is_computed_real(site.in(0).dtype) || bytes_of(all.to) != 1 || all.to == SmallType::none ||
      !scale || !zero || site.attributes().integer("block_size", 0) != 0)
    return nullptr;
  all.scale = static_cast<float>(*scale);
  all.zero = static_cast<int>(*zero);
  return launched(
      "steps",
      [all](const KernelArgs& args) {
        SmallSteps own = all;
        own.x = args.inputs[0];
        own.y = args.outputs[0];
        enqueue(own, static_cast<CUstream_st*>(args.stream));
      },
      1);
}

std::unique_ptr<Kernel> numbers(const Graph& graph, const Node& node, Context&) {
  const Site site(graph, node);
  const auto scale = site.number(1);
  if (site.in(0).dtype != DType::f8e4m3fn || site.out(0).dtype != DType::f32 || !scale)
    return nullptr;
  return launched(
      "floats of fp8",
      [count = site.in(0).shape.size(), by = static_cast<float>(*scale)](const KernelArgs& args) {
        enqueue_from_fp8(args.inputs[0], static_cast<float*>(args.outputs[0]), count, by,
                         static_cast<CUstream_st*>(args.stream));
      },
      1);
}

constexpr Maker kQuantizedMakers[] = {
    {"DequantizeLinear", "", numbers},
    {"QuantizeLinear", "", steps},
    {"QuantizedConv", kFused, conv},
    {"QuantizedLinear", kFused, linear},
};

}  // namespace

std::span<const Maker> quantized_kernels() { return kQuantizedMakers; }

}  // namespace sluice::engine::cuda
