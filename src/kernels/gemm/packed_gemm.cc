#include "kernels/gemm/packed_gemm.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/common/each_task.h"

namespace sluice::kernels::cpu {
namespace {

constexpr std::int64_t kDeep = 768;              // of k at a time
constexpr std::int64_t kBlockValues = 96 << 10;  // of rows at a time: they stay in the second cache
constexpr std::int64_t kWork = 1 << 18;          // multiply-adds worth another thread
constexpr std::int64_t kSharesPerThread = 6;     // so that all end at about the same time
constexpr std::int64_t kFewWeights = 64 << 10;   // that every thread may read: rows are cut then

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// How rows, columns and k are cut.
struct Cut {
  std::int64_t rows, columns;    // of a share
  std::int64_t segments, depth;  // of a block along k; depth is all where segments is not 1

  Cut(const Product& p, std::int64_t threads) {
    const TileShape tile = tile_shape();
    const std::int64_t pieces = up(p.depth, kDeep);
    depth = p.segments == 1 ? up(up(p.depth, std::max<std::int64_t>(1, pieces)), 8) * 8 : p.depth;
    segments = std::clamp<std::int64_t>(kDeep / std::max<std::int64_t>(1, depth), 1, p.segments);
    const std::int64_t fit = kBlockValues / std::max<std::int64_t>(1, segments * depth);
    const std::int64_t most = std::clamp<std::int64_t>(fit, tile.rows, 40 * tile.rows);
    rows = up(p.m, up(p.m, most));
    const std::int64_t work = p.m * p.n * std::max<std::int64_t>(1, p.segments * p.depth);
    const std::int64_t shares =
        threads == 1 ? 1 : std::min(threads * kSharesPerThread, up(work, kWork));
    const bool small = p.n * p.segments * p.depth <= kFewWeights;
    const std::int64_t across = small ? 1 : std::max<std::int64_t>(1, shares / up(p.m, rows));
    const std::int64_t panels = up(p.n, tile.columns);
    std::int64_t each = up(panels, across);
    while (each > 1 && !small && up(panels, each) % threads != 0)
      --each;  // as many for each thread
    columns = each * tile.columns;
    const std::int64_t least = std::min(shares, threads * kSharesPerThread / 2);
    const std::int64_t down = up(least, up(p.n, columns));  // so that there are enough of them
    rows = std::min(rows, std::max<std::int64_t>(tile.rows, up(p.m, down)));
  }
};

// Rows [row, row + count) by columns [first, first + wide), along all of k. `next` is the first
// column of what this thread will probably do then; the same where that needs the same panels.
void multiply_share(const Product& p, const RowSource& source, const Cut& cut, std::int64_t row,
                    std::int64_t first, std::int64_t next) {
  const std::int64_t count = std::min(cut.rows, p.m - row), k = p.segments * p.depth;
  const std::int64_t width = tile_shape().columns;
  std::vector<const float*> rows(static_cast<std::size_t>(count * p.segments));
  source.point(row, count, rows.data());
  const auto moved = [&](const float* from) {
    return from == nullptr ? nullptr : from + row * p.c_row + first;
  };
  TileBlock block{.rows = rows.data(),
                  .count = count,
                  .segments = 0,
                  .depth = 0,
                  .offset = 0,
                  .panels = p.panels + first * k,
                  .panel_step = width * k,
                  .columns = std::min(cut.columns, p.n - first),
                  .c = p.c + row * p.c_row + first,
                  .c_row = p.c_row,
                  .bias = p.bias + first,
                  .residual = moved(p.residual),
                  .epilogue = p.epilogue,
                  .last = moved(p.last)};
  std::int64_t done = 0;
  do {
    block.segments = std::min(cut.segments, p.segments - done / std::max<std::int64_t>(1, p.depth));
    block.depth = std::min(cut.depth, p.depth - block.offset);
    block.begins = done == 0;
    const std::int64_t deep = block.segments * block.depth;
    block.ends = done + deep == k;
    const bool whole = block.begins && block.ends && deep * cut.columns <= kFewWeights;
    block.ahead =
        block.ends ? (next == first ? nullptr : p.panels + next * k) : block.panels + deep * width;
    block.ahead_values = deep * (whole ? cut.columns : width);
    run(block);
    done += deep;
    block.panels += deep * width;
    if (p.segments == 1)
      block.offset += deep;
    else
      block.rows += block.segments * count;
  } while (done < k);
}

void multiply_by(const Product& p, const RowSource& source, std::int64_t threads,
                 const auto& each) {
  if (p.m == 0 || p.n == 0) return;
  const Cut cut(p, threads);
  const std::int64_t down = up(p.m, cut.rows), across = up(p.n, cut.columns);
  each(static_cast<std::size_t>(down * across), [&](std::size_t share, std::size_t) {
    const auto i = static_cast<std::int64_t>(share);
    const std::int64_t next = std::min((i + 1) / down, across - 1);
    multiply_share(p, source, cut, i % down * cut.rows, i / down * cut.columns, next * cut.columns);
  });
}

}  // namespace

std::int64_t panel_columns(std::int64_t n) {
  const std::int64_t width = tile_shape().columns;
  return up(n, width) * width;
}

void pack(std::int64_t k, std::int64_t n, MatrixView<float> from, float* to) {
  const std::int64_t width = tile_shape().columns;
  for (std::int64_t first = 0; first < n; first += width) {
    const std::int64_t columns = std::min(width, n - first);
    for (std::int64_t i = 0; i < k; ++i, to += width) {
      const float* const row = from.data + i * from.row + first * from.column;
      if (from.column == 1)
        std::copy_n(row, columns, to);
      else
        for (std::int64_t x = 0; x < columns; ++x) to[x] = row[x * from.column];
      std::fill(to + columns, to + width, 0.0f);
    }
  }
}

Tensor panels_of(std::int64_t k, std::int64_t n, MatrixView<float> from) {
  const Tensor panels(DType::f32, {panel_values(k, n)});
  pack(k, n, from, panels.values<float>().data());
  return panels;
}

std::string panel_way(std::string_view of) {
  return std::string(of) + " " + std::to_string(tile_shape().columns);
}

Floats packed_bias(std::int64_t n, const float* bias) {
  const auto columns = static_cast<std::size_t>(panel_columns(n));
  Floats result = hwy::AllocateAligned<float>(columns);
  std::fill_n(result.get(), columns, 0.0f);
  if (bias != nullptr) std::copy_n(bias, n, result.get());
  return result;
}

void multiply(const Product& product, const RowSource& rows) {
  multiply_by(product, rows, 1, [](std::size_t count, const auto& body) {
    for (std::size_t i = 0; i < count; ++i) body(i, std::size_t{0});
  });
}

void multiply(compute::Workers& workers, const Product& product, const RowSource& rows) {
  multiply_by(product, rows, workers.threads(),
              [&](std::size_t count, const auto& body) { each_task(workers, count, body); });
}

}  // namespace sluice::kernels::cpu
