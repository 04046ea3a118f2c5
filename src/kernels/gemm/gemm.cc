#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "kernels/gemm/packed_gemm.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t kDepth = 256;  // of a block: the columns of a tile stay in the L1 cache
constexpr std::int64_t kWidth = 512;  // of a block: all its columns stay in the L2 cache
constexpr std::int64_t kBlockRows = 16 * gemm::kRows;
constexpr std::int64_t kFewRows = 2 * gemm::kRows;  // not worth packing b for
constexpr std::int64_t kWork = 1 << 15;             // multiplications that are worth another thread

std::size_t grain_of(std::int64_t work_per_item) {
  return static_cast<std::size_t>(
      std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(1, work_per_item)));
}

// Row by row, each a sum of rows of b: for integers and for vectors.
template <class T>
void multiply_rows(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
                   MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_row) {
  workers.each(
      static_cast<std::size_t>(m), grain_of(n * k), [&](std::size_t begin, std::size_t end) {
        for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
          T* const row = c + i * c_row;
          std::fill(row, row + n, T(0));
          for (std::int64_t j = 0; j < k; ++j) {
            const T value = a.data[i * a.row + j * a.column];
            const T* const from = b.data + j * b.row;
            if (b.column == 1)
              for (std::int64_t x = 0; x < n; ++x) row[x] += value * from[x];
            else
              for (std::int64_t x = 0; x < n; ++x) row[x] += value * from[x * b.column];
          }
        }
      });
}

// Packs a block of rows of a to strips of a tile's rows, padded with zeros.
template <class T>
void pack_rows(MatrixView<T> a, std::int64_t rows, std::int64_t depth, T* to) {
  for (std::int64_t strip = 0; strip < rows; strip += gemm::kRows, to += gemm::kRows * depth)
    for (std::int64_t r = 0; r < gemm::kRows; ++r) {
      const T* const from = a.data + (strip + r) * a.row;
      for (std::int64_t j = 0; j < depth; ++j)
        to[j * gemm::kRows + r] = strip + r < rows ? from[j * a.column] : T(0);
    }
}

// Packs the columns of a tile of b, padded with zeros.
template <class T>
void pack_columns(MatrixView<T> b, std::int64_t columns, std::int64_t width, std::int64_t depth,
                  T* to) {
  for (std::int64_t j = 0; j < depth; ++j, to += width) {
    const T* const from = b.data + j * b.row;
    if (b.column == 1)
      std::copy(from, from + columns, to);
    else
      for (std::int64_t x = 0; x < columns; ++x) to[x] = from[x * b.column];
    std::fill(to + columns, to + width, T(0));
  }
}

// A block of c, computed by one thread: rows of a times columns of b.
template <class T>
class Block {
 public:
  Block(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
        std::int64_t c_row)
      : m_(m), n_(n), k_(k), a_(a), b_(b), c_(c), c_row_(c_row), width_(gemm::columns(T())) {
    const std::int64_t depth = std::min(k, kDepth);
    const std::int64_t columns = (n + width_ - 1) / width_ * width_;
    rows_ = buffer(std::min(kBlockRows, (m + gemm::kRows - 1) / gemm::kRows * gemm::kRows) * depth);
    columns_ = buffer((packs() ? columns : width_) * depth);
  }

  void run() {
    for (std::int64_t depth = 0; depth < k_; depth += kDepth) {
      const std::int64_t deep = std::min(kDepth, k_ - depth);
      if (packs())
        for (std::int64_t x = 0; x < n_; x += width_) pack_columns_at(depth, deep, x);
      for (std::int64_t row = 0; row < m_; row += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, m_ - row);
        pack_rows<T>({a_.data + row * a_.row + depth * a_.column, a_.row, a_.column}, rows, deep,
                     rows_.get());
        for (std::int64_t x = 0; x < n_; x += width_) strip_of_tiles(depth, deep, row, rows, x);
      }
    }
  }

 private:
  static std::unique_ptr<T[]> buffer(std::int64_t size) {
    return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(size));
  }
  bool packs() const { return m_ > kFewRows || b_.column != 1; }

  // Returns the packed columns.
  const T* pack_columns_at(std::int64_t depth, std::int64_t deep, std::int64_t x) {
    T* const to = columns_.get() + (packs() ? x * deep : 0);
    pack_columns<T>({b_.data + depth * b_.row + x * b_.column, b_.row, b_.column},
                    std::min(width_, n_ - x), width_, deep, to);
    return to;
  }

  void strip_of_tiles(std::int64_t depth, std::int64_t deep, std::int64_t row, std::int64_t rows,
                      std::int64_t x) {
    const std::int64_t columns = std::min(width_, n_ - x);
    const T* from = columns_.get() + x * deep;
    std::int64_t from_row = width_;
    if (!packs() && columns == width_)
      from = b_.data + depth * b_.row + x, from_row = b_.row;
    else if (!packs())
      from = pack_columns_at(depth, deep, x);
    alignas(64) T edge[gemm::kRows * gemm::kMaxColumns];
    for (std::int64_t r = 0; r < rows; r += gemm::kRows) {
      T* to = c_ + (row + r) * c_row_ + x;
      const T* const strip = rows_.get() + r * deep;
      if (columns == width_ && rows - r >= gemm::kRows) {
        gemm::tile(strip, from, from_row, deep, to, c_row_, depth > 0);
        continue;
      }
      gemm::tile(strip, from, from_row, deep, edge, width_, false);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(gemm::kRows, rows - r); ++i, to += c_row_)
        for (std::int64_t y = 0; y < columns; ++y)
          to[y] = (depth > 0 ? to[y] : T(0)) + edge[i * width_ + y];
    }
  }

  std::int64_t m_, n_, k_;
  MatrixView<T> a_, b_;
  T* c_;
  std::int64_t c_row_, width_;
  std::unique_ptr<T[]> rows_, columns_;
};

// Splits c by columns, and by rows too where there are too few columns for all threads.
template <class T>
void multiply_blocks(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
                     MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_row) {
  const auto up = [](std::int64_t x, std::int64_t by) { return (x + by - 1) / by; };
  const std::int64_t width = gemm::columns(T()), threads = workers.threads();
  const std::int64_t wide = std::min(kWidth, up(up(n, threads), width) * width);
  const std::int64_t across = up(n, wide);
  const std::int64_t down = std::clamp<std::int64_t>(up(threads, across), 1, up(m, kBlockRows));
  const std::int64_t tall = up(up(m, down), gemm::kRows) * gemm::kRows;
  workers.each(static_cast<std::size_t>(across * up(m, tall)), grain_of(wide * tall * k),
               [&](std::size_t begin, std::size_t end) {
                 for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end);
                      ++i) {
                   const std::int64_t x = i % across * wide, y = i / across * tall;
                   Block<T>(std::min(tall, m - y), std::min(wide, n - x), k,
                            {a.data + y * a.row, a.row, a.column},
                            {b.data + x * b.column, b.row, b.column}, c + y * c_row + x, c_row)
                       .run();
                 }
               });
}

// Packs b to panels for packed_gemm().
void multiply_panels(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
                     MatrixView<float> a, MatrixView<float> b, float* c, std::int64_t c_row) {
  const auto panels =
      hwy::AllocateAligned<float>(static_cast<std::size_t>(cpu::panel_values(k, n)));
  cpu::pack(k, n, b, panels.get());
  const cpu::Floats bias = cpu::packed_bias(n, nullptr);
  cpu::packed_gemm(workers,
                   {.m = m,
                    .n = n,
                    .segments = 1,
                    .depth = k,
                    .panels = panels.get(),
                    .bias = bias.get(),
                    .c = c,
                    .c_row = c_row},
                   cpu::MatrixRows(a.data, a.row));
}

}  // namespace

template <class T>
void matmul(compute::Workers& workers, std::int64_t m, std::int64_t n, std::int64_t k,
            MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t c_row) {
  if (m == 0 || n == 0) return;
  if constexpr (std::is_same_v<T, float>)
    if (n > 1 && k > 0 && m > kFewRows && a.column == 1)
      return multiply_panels(workers, m, n, k, a, b, c, c_row);
  if constexpr (std::is_floating_point_v<T>)
    if (n > 1 && k > 0) return multiply_blocks(workers, m, n, k, a, b, c, c_row);
  multiply_rows(workers, m, n, k, a, b, c, c_row);
}

template void matmul(compute::Workers&, std::int64_t, std::int64_t, std::int64_t, MatrixView<float>,
                     MatrixView<float>, float*, std::int64_t);
template void matmul(compute::Workers&, std::int64_t, std::int64_t, std::int64_t,
                     MatrixView<double>, MatrixView<double>, double*, std::int64_t);
template void matmul(compute::Workers&, std::int64_t, std::int64_t, std::int64_t,
                     MatrixView<std::uint32_t>, MatrixView<std::uint32_t>, std::uint32_t*,
                     std::int64_t);
template void matmul(compute::Workers&, std::int64_t, std::int64_t, std::int64_t,
                     MatrixView<std::uint64_t>, MatrixView<std::uint64_t>, std::uint64_t*,
                     std::int64_t);

}  // namespace sluice::kernels
