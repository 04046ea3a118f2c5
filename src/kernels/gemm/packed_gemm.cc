#include "kernels/gemm/packed_gemm.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/common/each_task.h"

namespace sluice::kernels::cpu {
namespace {

constexpr std::int64_t kBlockDepth = 768;  // along k, of a block
constexpr std::int64_t kBlockValues = 96
                                      << 10;    // of the rows of a block: they stay in the L2 cache
constexpr std::int64_t kWork = 1 << 18;         // multiply-adds that are worth another thread
constexpr std::int64_t kTasksPerThread = 6;     // for load balance
constexpr std::int64_t kFewWeights = 64 << 10;  // all threads may read them: only rows are split

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// How rows, columns and k are split.
struct GemmBlocking {
  std::int64_t rows, columns;    // of a task
  std::int64_t segments, depth;  // of a block along k; with several segments depth is not split

  GemmBlocking(const PackedGemm& p, std::int64_t threads) {
    const TileShape tile = tile_shape();
    const std::int64_t pieces = up(p.depth, kBlockDepth);
    depth = p.segments == 1 ? up(up(p.depth, std::max<std::int64_t>(1, pieces)), 8) * 8 : p.depth;
    segments =
        std::clamp<std::int64_t>(kBlockDepth / std::max<std::int64_t>(1, depth), 1, p.segments);
    const std::int64_t fit = kBlockValues / std::max<std::int64_t>(1, segments * depth);
    const std::int64_t max_rows = std::clamp<std::int64_t>(fit, tile.rows, 40 * tile.rows);
    rows = up(p.m, up(p.m, max_rows));
    const std::int64_t work = p.m * p.n * std::max<std::int64_t>(1, p.segments * p.depth);
    const std::int64_t tasks =
        threads == 1 ? 1 : std::min(threads * kTasksPerThread, up(work, kWork));
    const bool small = p.n * p.segments * p.depth <= kFewWeights;
    const std::int64_t across = small ? 1 : std::max<std::int64_t>(1, tasks / up(p.m, rows));
    const std::int64_t panels = up(p.n, tile.columns);
    std::int64_t each = up(panels, across);
    while (each > 1 && !small && up(panels, each) % threads != 0)
      --each;  // the same number of tasks for each thread
    columns = each * tile.columns;
    const std::int64_t min_tasks = std::min(tasks, threads * kTasksPerThread / 2);
    const std::int64_t down = up(min_tasks, up(p.n, columns));  // so that there are enough tasks
    rows = std::min(rows, std::max<std::int64_t>(tile.rows, up(p.m, down)));
  }
};

// Sets the next block along k, behind `done` values of it. `next` is the first column of the task
// that this thread probably runs next; equal to `first` if that needs the same panels.
void set_block(const PackedGemm& p, const GemmBlocking& blocking, std::int64_t done,
               std::int64_t first, std::int64_t next, TileBlock& block) {
  const std::int64_t k = p.segments * p.depth, width = tile_shape().columns;
  block.segments =
      std::min(blocking.segments, p.segments - done / std::max<std::int64_t>(1, p.depth));
  block.depth = std::min(blocking.depth, p.depth - block.offset);
  block.begins = done == 0;
  const std::int64_t deep = block.segments * block.depth;
  block.ends = done + deep == k;
  const bool single_block = block.begins && block.ends && deep * blocking.columns <= kFewWeights;
  block.ahead =
      block.ends ? (next == first ? nullptr : p.panels + next * k) : block.panels + deep * width;
  block.ahead_values = deep * (single_block ? blocking.columns : width);
}

// Computes rows from `row` on by columns from `first` on, along all of k. `next`: see set_block().
void run_task(const PackedGemm& p, const RowSource& source, const GemmBlocking& blocking,
              std::int64_t row, std::int64_t first, std::int64_t next) {
  const std::int64_t count = std::min(blocking.rows, p.m - row), k = p.segments * p.depth;
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
                  .columns = std::min(blocking.columns, p.n - first),
                  .c = p.c + row * p.c_row + first,
                  .c_row = p.c_row,
                  .bias = p.bias + first,
                  .residual = moved(p.residual),
                  .activation = p.activation,
                  .last = moved(p.last)};
  std::int64_t done = 0;
  do {
    set_block(p, blocking, done, first, next, block);
    run(block);
    const std::int64_t deep = block.segments * block.depth;
    done += deep;
    block.panels += deep * width;
    if (p.segments == 1)
      block.offset += deep;
    else
      block.rows += block.segments * count;
  } while (done < k);
}

void run_tasks(const PackedGemm& p, const RowSource& source, std::int64_t threads,
               const auto& each) {
  if (p.m == 0 || p.n == 0) return;
  const GemmBlocking blocking(p, threads);
  const std::int64_t down = up(p.m, blocking.rows), across = up(p.n, blocking.columns);
  each(static_cast<std::size_t>(down * across), [&](std::size_t task, std::size_t) {
    const auto i = static_cast<std::int64_t>(task);
    const std::int64_t next = std::min((i + 1) / down, across - 1);
    run_task(p, source, blocking, i % down * blocking.rows, i / down * blocking.columns,
             next * blocking.columns);
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

std::string panel_format(std::string_view layout) {
  return std::string(layout) + " " + std::to_string(tile_shape().columns);
}

Floats packed_bias(std::int64_t n, const float* bias) {
  const auto columns = static_cast<std::size_t>(panel_columns(n));
  Floats result = hwy::AllocateAligned<float>(columns);
  std::fill_n(result.get(), columns, 0.0f);
  if (bias != nullptr) std::copy_n(bias, n, result.get());
  return result;
}

void packed_gemm(const PackedGemm& gemm, const RowSource& rows) {
  run_tasks(gemm, rows, 1, [](std::size_t count, const auto& body) {
    for (std::size_t i = 0; i < count; ++i) body(i, std::size_t{0});
  });
}

void packed_gemm(compute::Workers& workers, const PackedGemm& gemm, const RowSource& rows) {
  run_tasks(gemm, rows, workers.threads(),
            [&](std::size_t count, const auto& body) { each_task(workers, count, body); });
}

}  // namespace sluice::kernels::cpu
