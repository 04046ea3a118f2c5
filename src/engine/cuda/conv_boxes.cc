#include "engine/cuda/conv_boxes.h"

#include <algorithm>

#include "engine/cuda/hopper_finish.h"
#include "engine/cuda/quantized_hopper.h"

namespace sluice::engine::cuda {
namespace {

SmallRows rows_of(const Sliding& w, int channels) {
  return {.high = w.height,
          .wide = w.width,
          .channels = channels,
          .pixel = channels,
          .out_high = w.out_height,
          .out_wide = w.out_width,
          .kernel_high = w.rows,
          .kernel_wide = w.columns,
          .stride_high = w.stride_y,
          .stride_wide = w.stride_x,
          .top = w.top,
          .left = w.left};
}

// From [filters, channels, places] to [filters, places, channels].
std::vector<std::uint8_t> channels_last(const Tensor& weight, std::int64_t channels) {
  const auto* const from = static_cast<const std::uint8_t*>(weight.data());
  const auto element = static_cast<std::int64_t>(bytes(weight.dtype()));
  const std::int64_t places = weight.shape()[2] * weight.shape()[3];
  std::vector<std::uint8_t> to(weight.bytes());
  for (std::int64_t i = 0; i < weight.size(); ++i) {
    const std::int64_t filter = i / (places * channels), channel = i / places % channels;
    const std::int64_t at = (filter * places + i % places) * channels + channel;
    std::copy_n(from + i * element, element, to.begin() + at * element);
  }
  return to;
}

SmallFinish finish_of(const ConvCall& call, SmallType type, bool has_residual) {
  const Sliding& w = call.window;
  SmallFinish f;
  f.whole = false;
  f.rows = std::int64_t{w.batch} * w.out_height * w.out_width;
  f.n = call.out;
  f.residual_type = has_residual ? type : SmallType::none;
  f.to = type;
  f.residual_first = true;
  f.activation = call.activation;
  f.low = call.low;
  f.high = call.high;
  return f;
}

ConstMemory upload(Context& context, const std::vector<std::uint8_t>& bytes) {
  return context.constant(Tensor::of(std::span<const std::uint8_t>(bytes)));
}

float number_at(const Tensor& values, std::size_t i) {
  if (values.dtype() == DType::f16) return static_cast<float>(values.values<Half>()[i]);
  return static_cast<float>(values.values<BFloat16>()[i]);
}

}  // namespace

std::optional<FoldedConvolution> fold_convolution(const ConvCall& call, const Tensor& weight) {
  const Sliding& w = call.window;
  const int element = static_cast<int>(bytes(weight.dtype()));
  if (call.in * element >= 16 || call.group != 1 || element != 2 || w.stride_x * w.stride_y == 1 ||
      w.dilation_x * w.dilation_y != 1)
    return {};
  const SmallRows before = rows_of(w, call.in * element);
  FoldedConvolution made;
  made.rows = before;
  made.fold = fold_for(made.rows, w.batch);
  made.weights = folded(channels_last(weight, call.in), call.out, before, made.fold, made.rows);
  return made;
}

std::optional<BoxConvolution> plan_boxes(Context& context, const ConvCall& call,
                                         const FoldedConvolution& folded, const Tensor& bias,
                                         bool has_residual) {
  if (context.capability() != kHopper) return {};
  BoxConvolution made;
  SmallProduct& p = made.product;
  p.from = call.type == RealType::bf16 ? SmallType::bf16 : SmallType::f16;
  p.rows = folded.rows;
  join_pixels(p.rows);
  p.finish = finish_of(call, p.from, has_residual);
  p.tile = call.out <= 64 ? SmallTile::hopper_narrow : SmallTile::hopper;
  if (!hopper_takes(p)) return {};
  const auto n = static_cast<std::size_t>(call.out), row = static_cast<std::size_t>(p.rows.row);
  std::vector<std::uint8_t> arranged((n + 15) / 16 * 16 * row);
  std::vector<float> columns(2 * ((n + kMostColumns - 1) / kMostColumns * kMostColumns));
  for (std::size_t i = 0; i < n; ++i) {
    const auto to = static_cast<std::size_t>(hopper_row(static_cast<int>(i)));
    std::copy_n(folded.weights.begin() + static_cast<std::ptrdiff_t>(i * row), row,
                arranged.begin() + static_cast<std::ptrdiff_t>(to * row));
    columns[2 * i] = 1;
    if (bias) columns[2 * i + 1] = number_at(bias, i);
  }
  made.weight = upload(context, arranged);
  made.columns = context.constant(Tensor::of(std::span<const float>(columns)));
  p.weight = made.weight.get();
  p.columns = static_cast<const SmallColumn*>(made.columns.get());
  return made;
}

}  // namespace sluice::engine::cuda
