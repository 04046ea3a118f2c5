#include "engine/exec/cuda/nodes/int8_gemm_tile.h"

#include <fmt/core.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/quantized/int8_gemm_sm90.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cuda {
namespace {

using NamedTile = std::pair<SmallTile, const char*>;
constexpr NamedTile kTiles[] = {{SmallTile::large, "128 x 128"},
                                {SmallTile::tall, "128 x 64"},
                                {SmallTile::little, "64 x 64"},
                                {SmallTile::hopper, "128 x 128 on Hopper"},
                                {SmallTile::hopper_narrow, "128 x 64 on Hopper"}};
constexpr std::size_t kAnywhere = 3;  // of them

bool is_for(const Context& context, SmallProduct p, SmallTile tile) {
  p.tile = tile;
  return context.capability() == kHopper && hopper_takes(p);
}

std::vector<NamedTile> tiles_for(const Context& context, const SmallProduct& p) {
  std::vector<NamedTile> tiles(kTiles, kTiles + kAnywhere);
  for (const NamedTile& one : std::span(kTiles).subspan(kAnywhere))
    if (is_for(context, p, one.first)) tiles.push_back(one);
  return tiles;
}

std::string name_of(const SmallProduct& p) {
  const SmallRows& r = p.rows;
  return fmt::format(
      "tile of a product {} x {} x {}, {} channels, window {} x {} by {}, {} {} {} {}",
      p.finish.rows, p.finish.n, r.row, r.channels, r.kernel_high, r.kernel_wide, r.stride_high,
      static_cast<int>(p.from), static_cast<int>(p.finish.to),
      static_cast<int>(p.finish.residual_type), static_cast<int>(p.finish.activation));
}

// With made-up numbers wherever it reads.
SmallProduct sample_of(Context& context, SmallProduct p) {
  const auto sample = [&](std::size_t slot, std::int64_t count, DType dtype) {
    return context.sample(slot, byte_size(Shape{count}, dtype), dtype);
  };
  const std::int64_t images = p.finish.rows / (std::int64_t{p.rows.out_high} * p.rows.out_wide);
  const std::int64_t size = p.finish.rows * p.finish.n;
  p.rows.x = sample(0, images * p.rows.high * p.rows.wide * p.rows.pixel, DType::u8);
  const std::int64_t columns = (p.finish.n + kMostColumns - 1) / kMostColumns * kMostColumns;
  const void* const numbers = sample(1, 2 * columns, DType::f32);
  p.finish.scale = static_cast<const float*>(numbers);
  p.columns = static_cast<const SmallColumn*>(numbers);
  p.finish.y = sample(2, size * bytes_of(p.finish.to), DType::u8);
  if (p.finish.residual_type != SmallType::none)
    p.finish.residual = sample(3, size * bytes_of(p.finish.residual_type), DType::u8);
  return p;
}

SmallTile guess(const Context& context, const SmallProduct& p) {
  const auto large = (p.finish.rows + 127) / 128 * ((p.finish.n + 127) / 128);
  if (large < context.multiprocessors()) return SmallTile::little;
  return is_for(context, p, SmallTile::hopper) ? SmallTile::hopper : SmallTile::large;
}

}  // namespace

SmallTile quickest_tile(Context& context, const SmallProduct& product) {
  const std::string of = name_of(product);
  const std::vector<NamedTile> tiles = tiles_for(context, product);
  if (const ChoiceTable::Choice known = context.choice(of))
    for (const auto& [tile, name] : tiles)
      if (name == *known) return tile;
  if (!context.options.measure) return guess(context, product);
  const Context::Mark since = context.mark();
  SmallProduct sample = sample_of(context, product);
  double best = std::numeric_limits<double>::max();
  const NamedTile* chosen = kTiles;
  for (const NamedTile& one : tiles) {
    sample.tile = one.first;
    const double us = context.measure_us([&] { enqueue(sample, context.stream()); });
    if (us < best) best = us, chosen = &one;
  }
  context.choose(of, chosen->second, since);
  return chosen->first;
}

}  // namespace sluice::engine::cuda
