#include "engine/exec/cuda/nodes/conv_space_to_depth.h"

#include <algorithm>

#include "kernels/gemm/epilogue_params_sm90.h"
#include "kernels/gemm/gemm_sm90.h"

namespace sluice::engine::cuda {
namespace {

Im2col rows_of(const SlidingWindow& w, int channels) {
  return {.height = w.height,
          .width = w.width,
          .channels = channels,
          .pixel_stride = channels,
          .out_height = w.out_height,
          .out_width = w.out_width,
          .kernel_height = w.rows,
          .kernel_width = w.columns,
          .stride_y = w.stride_y,
          .stride_x = w.stride_x,
          .dilation_y = w.dilation_y,
          .dilation_x = w.dilation_x,
          .pad_top = w.top,
          .pad_left = w.left};
}

GemmEpilogue gemm_epilogue_of(const ConvCall& call, GemmType type, bool has_residual) {
  const SlidingWindow& w = call.window;
  GemmEpilogue f;
  f.int32_sums = false;
  f.rows = std::int64_t{w.batch} * w.out_height * w.out_width;
  f.n = call.out;
  f.residual_type = has_residual ? type : GemmType::none;
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

std::optional<SpaceToDepthConvolution> space_to_depth_convolution(const ConvCall& call,
                                                                  const Tensor& weight) {
  const SlidingWindow& w = call.window;
  const int element = static_cast<int>(bytes(weight.dtype()));
  const Im2col before = rows_of(w, call.in * element);
  if (call.in * element >= 16 || call.group != 1 || element != 2 || w.stride_x * w.stride_y == 1 ||
      !covers_all_pixels(before))
    return {};
  SpaceToDepthConvolution made;
  made.im2col = before;
  made.space_to_depth = plan_space_to_depth(made.im2col, w.batch);
  made.weights = space_to_depth_weights(channels_last(weight), call.out, before,
                                        made.space_to_depth, made.im2col);
  return made;
}

std::optional<TmaConvolution> plan_tma_convolution(Context& context, const ConvCall& call,
                                                   const SpaceToDepthConvolution& conv,
                                                   const Tensor& bias, bool has_residual) {
  if (!context.has_sm90()) return {};
  TmaConvolution made;
  TileGemmCall& p = made.gemm;
  p.from = call.type == RealType::bf16 ? GemmType::bf16 : GemmType::f16;
  p.rows = conv.im2col;
  merge_row_pixels(p.rows);
  p.epilogue = gemm_epilogue_of(call, p.from, has_residual);
  p.tile = call.out <= 64 ? GemmTile::sm90_m128n64 : GemmTile::sm90_m128n128;
  if (p.epilogue.rows > kTileGemmMaxRows || !gemm_sm90_supports(p)) return {};
  const auto n = static_cast<std::size_t>(call.out);
  std::vector<float> columns(2 * ((n + kMaxTileColumns - 1) / kMaxTileColumns * kMaxTileColumns));
  for (std::size_t i = 0; i < n; ++i) {
    columns[2 * i] = 1;
    if (bias) columns[2 * i + 1] = number_at(bias, i);
  }
  made.weight = upload(context, sm90_weight_order(conv.weights.data(), call.out, p.rows.row_bytes));
  made.columns = context.constant(Tensor::of(std::span<const float>(columns)));
  p.weight = made.weight.get();
  p.scale_bias = static_cast<const ScaleBias*>(made.columns.get());
  return made;
}

}  // namespace sluice::engine::cuda
