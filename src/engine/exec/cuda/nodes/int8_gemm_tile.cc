#include "engine/exec/cuda/nodes/int8_gemm_tile.h"

#include <fmt/core.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gemm/gemm_sm90.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

using NamedTile = std::pair<GemmTile, const char*>;
constexpr NamedTile kTiles[] = {{GemmTile::m128n128, "128 x 128"},
                                {GemmTile::m128n64, "128 x 64"},
                                {GemmTile::m64n64, "64 x 64"},
                                {GemmTile::sm90_m128n128, "128 x 128 on Hopper"},
                                {GemmTile::sm90_m128n64, "128 x 64 on Hopper"}};
constexpr std::size_t kPortableTiles = 3;  // the first of them run on every GPU

bool supports_sm90(const Context& context, TileGemmCall p, GemmTile tile) {
  p.tile = tile;
  return context.has_sm90() && gemm_sm90_supports(p);
}

std::vector<NamedTile> tiles_for(const Context& context, const TileGemmCall& p) {
  std::vector<NamedTile> tiles(kTiles, kTiles + kPortableTiles);
  for (const NamedTile& one : std::span(kTiles).subspan(kPortableTiles))
    if (supports_sm90(context, p, one.first)) tiles.push_back(one);
  return tiles;
}

// The key of the chosen tile. A plan with unknown keys is measured again.
std::string algorithm_key(const TileGemmCall& p) {
  const Im2col& r = p.rows;
  return fmt::format("tile of gemm {} x {} x {}, {} channels, window {} x {} by {}, {} {} {} {}",
                     p.epilogue.rows, p.epilogue.n, r.row_bytes, r.channels, r.kernel_height,
                     r.kernel_width, r.stride_y, static_cast<int>(p.from),
                     static_cast<int>(p.epilogue.to), static_cast<int>(p.epilogue.residual_type),
                     static_cast<int>(p.epilogue.activation));
}

// The call with sample buffers for all its pointers.
TileGemmCall sample_of(Context& context, TileGemmCall p) {
  const auto sample = [&](std::size_t slot, std::int64_t count, DType dtype) {
    return context.sample(slot, byte_size(Shape{count}, dtype), dtype);
  };
  const std::int64_t images =
      p.epilogue.rows / (std::int64_t{p.rows.out_height} * p.rows.out_width);
  const std::int64_t size = p.epilogue.rows * p.epilogue.n;
  p.rows.x = sample(0, images * p.rows.height * p.rows.width * p.rows.pixel_stride, DType::u8);
  const std::int64_t columns =
      (p.epilogue.n + kMaxTileColumns - 1) / kMaxTileColumns * kMaxTileColumns;
  const void* const numbers = sample(1, 2 * columns, DType::f32);
  p.epilogue.scale = static_cast<const float*>(numbers);
  p.scale_bias = static_cast<const ScaleBias*>(numbers);
  p.epilogue.y = sample(2, size * bytes_of(p.epilogue.to), DType::u8);
  if (p.epilogue.residual_type != GemmType::none)
    p.epilogue.residual = sample(3, size * bytes_of(p.epilogue.residual_type), DType::u8);
  return p;
}

GemmTile guess(const Context& context, const TileGemmCall& p) {
  const auto large = (p.epilogue.rows + 127) / 128 * ((p.epilogue.n + 127) / 128);
  if (large < context.multiprocessors()) return GemmTile::m64n64;
  return supports_sm90(context, p, GemmTile::sm90_m128n128) ? GemmTile::sm90_m128n128
                                                            : GemmTile::m128n128;
}

}  // namespace

GemmTile fastest_tile(Context& context, const TileGemmCall& gemm) {
  const std::string key = algorithm_key(gemm);
  const std::vector<NamedTile> tiles = tiles_for(context, gemm);
  if (const AlgorithmChoice known = context.choice(key))
    for (const auto& [tile, name] : tiles)
      if (name == *known) return tile;
  if (!context.options.measure) return guess(context, gemm);
  const Context::Mark since = context.mark();
  TileGemmCall sample = sample_of(context, gemm);
  double best = std::numeric_limits<double>::max();
  const NamedTile* chosen = kTiles;
  for (const NamedTile& one : tiles) {
    sample.tile = one.first;
    const double us = context.measure_us([&] { enqueue_tile_gemm(sample, context.stream()); });
    if (us < best) best = us, chosen = &one;
  }
  context.choose(key, chosen->second, since);
  return chosen->first;
}

}  // namespace sluice::engine::cuda
