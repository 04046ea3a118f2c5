#include "kernels/gemm/int8_gemm_cpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/each_task.h"

namespace sluice::kernels::cpu {
namespace {

constexpr std::int64_t kBlockBytes = 192 << 10;  // rows of a block: they stay in the L2 cache
constexpr std::int64_t kWork = 1 << 19;          // multiply-adds that are worth another thread
constexpr std::int64_t kTasksPerThread = 6;

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

std::int64_t max_block_rows(const Int8Depth& depth) {
  const std::int64_t tile = int8_shape().rows;
  return std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, depth.row_bytes()), tile,
                                  64 * tile);
}

// How rows and columns are split into tasks.
struct Int8Blocking {
  std::int64_t rows, columns;

  Int8Blocking(const Int8Gemm& p, std::int64_t threads) {
    const std::int64_t n = p.weights->n;
    rows = up(p.m, up(p.m, max_block_rows(p.weights->depth)));
    const std::int64_t work = p.m * n * p.weights->depth.row_bytes();
    const std::int64_t tasks =
        threads == 1 ? 1 : std::min(threads * kTasksPerThread, up(work, kWork));
    const std::int64_t across = std::max<std::int64_t>(1, tasks / up(p.m, rows));
    const std::int64_t width = int8_shape().columns;
    columns = up(up(n, across), width) * width;
  }
};

void write_rows(const Int8Rows& source, std::int64_t first, std::int64_t count,
                const Int8Depth& depth, bool has_sign, std::uint8_t* to,
                const std::uint8_t** pointers) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* const row = to + i * depth.row_bytes();
    Int8RowWriter writer(row, has_sign);
    source.write(first + i, writer);
    for (std::int64_t s = 0; s < depth.segments; ++s)
      pointers[s * count + i] = row + s * depth.words() * 4;
  }
}

// Rows from `row` on by columns from `first` on, with this slot's part of the scratch.
void run_task(const Int8Gemm& p, const Int8Rows& rows, const Int8Blocking& blocking,
              std::int64_t row, std::int64_t first, std::uint8_t* own) {
  const Int8Weights& w = *p.weights;
  const std::int64_t count = std::min(blocking.rows, p.m - row);
  const std::int64_t written = p.in_place_rows ? 0 : max_block_rows(w.depth) * w.depth.row_bytes();
  auto** const pointers = reinterpret_cast<const std::uint8_t**>(own + up(written, 64) * 64);
  if (p.in_place_rows)
    rows.point(row, count, pointers);
  else
    write_rows(rows, row, count, w.depth, p.has_sign, own, pointers);
  Int8Epilogue epilogue = *p.epilogue;
  epilogue.scale += first;
  epilogue.bias += first;
  const std::int64_t begin = row * w.n + first;
  const std::int64_t c_bytes = epilogue.quant.to == DType::f32 ? 4 : 1;
  const std::int64_t residual_bytes = epilogue.residual_type == DType::f32 ? 4 : 1;
  const auto* const residual = static_cast<const std::uint8_t*>(p.residual);
  run(Int8Block{.rows = pointers,
                .count = count,
                .segments = w.depth.segments,
                .words = w.depth.words(),
                .panels = w.panels.values<std::uint8_t>().data() +
                          first / int8_shape().columns * w.panel_bytes(),
                .panel_step = w.panel_bytes(),
                .columns = std::min(blocking.columns, w.n - first),
                .compensation = w.compensation.data() + first,
                .c = static_cast<std::uint8_t*>(p.c) + begin * c_bytes,
                .residual = residual == nullptr ? nullptr : residual + begin * residual_bytes,
                .c_row = w.n,
                .epilogue = &epilogue});
}

}  // namespace

std::int64_t Int8Depth::words() const { return up(depth, int8_shape().together()); }

void Int8RowWriter::put(const std::uint8_t* values, std::int64_t count) {
  if (value_bytes_ == 2) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<std::uint16_t>(values[i] ^ flip_);
      std::memcpy(to_ + 2 * i, &value, 2);
    }
  } else if (flip_ == 0) {
    std::memcpy(to_, values, static_cast<std::size_t>(count));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to_[i] = values[i] ^ flip_;
  }
  to_ += count * value_bytes_;
  written_ += count;
}

void Int8RowWriter::fill(std::uint8_t value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) put(&value, 1);
}

void Int8RowWriter::end_run() {
  const std::int64_t more = (4 - written_ * value_bytes_ % 4) % 4;
  std::memset(to_, 0, static_cast<std::size_t>(more));
  to_ += more;
  written_ = 0;
}

std::int64_t Int8Weights::panel_bytes() const { return depth.row_bytes() * int8_shape().columns; }

std::size_t Int8Weights::bytes() const {
  return static_cast<std::size_t>(panel_bytes() * up(n, int8_shape().columns));
}

Tensor int8_panels(const Int8Depth& depth, std::int64_t n, const Int8At& at) {
  const Int8Shape shape = int8_shape();
  const std::int64_t width = shape.columns, words = depth.words(), together = shape.together();
  const Int8Weights of{depth, n, {}, {}};
  const Tensor panels(DType::u8, {static_cast<std::int64_t>(of.bytes())});
  std::uint8_t* to = panels.values<std::uint8_t>().data();
  for (std::int64_t first = 0; first < n; first += width)
    for (std::int64_t s = 0; s < depth.segments; ++s)
      for (std::int64_t w = 0; w < words; ++w)
        for (std::int64_t column = first; column < first + width; ++column)
          for (std::int64_t d = w * together; d < (w + 1) * together; ++d) {
            const bool there = column < n && d < depth.depth;
            const std::int16_t value = there ? at(s, d, column) : std::int16_t{0};
            std::memcpy(to, &value, static_cast<std::size_t>(shape.value_bytes));
            to += shape.value_bytes;
          }
  return panels;
}

std::vector<std::int32_t> int8_compensation(const Int8Depth& depth, std::int64_t n, int zero,
                                            const Int8At& at) {
  const std::int64_t width = int8_shape().columns;
  std::vector<std::int32_t> compensation(static_cast<std::size_t>(up(n, width) * width), 0);
  for (std::int64_t s = 0; s < depth.segments; ++s)
    for (std::int64_t d = 0; d < depth.depth; ++d)
      for (std::int64_t column = 0; column < n; ++column)
        compensation[static_cast<std::size_t>(column)] -= zero * at(s, d, column);
  return compensation;
}

std::string int8_panel_format(std::string_view layout) {
  const Int8Shape shape = int8_shape();
  return std::string(layout) + " words of " + std::to_string(shape.together()) + " by " +
         std::to_string(shape.columns);
}

std::vector<float> int8_columns(std::int64_t n, const float* values) {
  const std::int64_t width = int8_shape().columns;
  std::vector<float> result(static_cast<std::size_t>(up(n, width) * width), 0.0f);
  if (values != nullptr) std::copy_n(values, n, result.begin());
  return result;
}

std::size_t int8_scratch(const compute::Workers& workers, const Int8Depth& depth,
                         bool in_place_rows) {
  const std::int64_t rows = max_block_rows(depth);
  const std::int64_t each =
      rows * depth.segments * static_cast<std::int64_t>(sizeof(std::uint8_t*)) +
      (in_place_rows ? 0 : up(rows * depth.row_bytes(), 64) * 64);
  return static_cast<std::size_t>(workers.threads() * up(each, 64) * 64);
}

void int8_gemm(compute::Workers& workers, const Int8Gemm& p, const Int8Rows& rows) {
  const Int8Weights& w = *p.weights;
  if (p.m == 0 || w.n == 0) return;
  const Int8Blocking blocking(p, workers.threads());
  const std::int64_t down = up(p.m, blocking.rows), across = up(w.n, blocking.columns);
  const std::size_t each =
      int8_scratch(workers, w.depth, p.in_place_rows) / static_cast<std::size_t>(workers.threads());
  each_task(workers, static_cast<std::size_t>(down * across),
            [&](std::size_t task, std::size_t slot) {
              const auto at = static_cast<std::int64_t>(task);
              run_task(p, rows, blocking, at % down * blocking.rows, at / down * blocking.columns,
                       p.scratch + slot * each);
            });
}

}  // namespace sluice::kernels::cpu
