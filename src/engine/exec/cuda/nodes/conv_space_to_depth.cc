#include "engine/exec/cuda/nodes/conv_space_to_depth.h"

#include <algorithm>

#include "kernels/quantized/epilogue_params_sm90.h"
#include "kernels/quantized/int8_gemm_sm90.h"

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
          .dilation_high = w.dilation_y,
          .dilation_wide = w.dilation_x,
          .top = w.top,
          .left = w.left};
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
  const SmallRows before = rows_of(w, call.in * element);
  if (call.in * element >= 16 || call.group != 1 || element != 2 || w.stride_x * w.stride_y == 1 ||
      !is_dense(before))
    return {};
  FoldedConvolution made;
  made.rows = before;
  made.fold = fold_for(made.rows, w.batch);
  made.weights = folded(channels_last(weight), call.out, before, made.fold, made.rows);
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
  if (p.finish.rows > kMostSmallRows || !hopper_takes(p)) return {};
  const auto n = static_cast<std::size_t>(call.out);
  std::vector<float> columns(2 * ((n + kMostColumns - 1) / kMostColumns * kMostColumns));
  for (std::size_t i = 0; i < n; ++i) {
    columns[2 * i] = 1;
    if (bias) columns[2 * i + 1] = number_at(bias, i);
  }
  made.weight = upload(context, in_hopper_order(folded.weights.data(), call.out, p.rows.row));
  made.columns = context.constant(Tensor::of(std::span<const float>(columns)));
  p.weight = made.weight.get();
  p.columns = static_cast<const SmallColumn*>(made.columns.get());
  return made;
}

}  // namespace sluice::engine::cuda
