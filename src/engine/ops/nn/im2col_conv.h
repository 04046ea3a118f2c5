// Convolution by im2col and GEMM.
#pragma once

#include <vector>

#include "engine/ops/window.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {

struct Convolution {
  std::int64_t batch, channels, filters, groups;
  Window window;

  std::int64_t depth() const {
    return channels / groups * window.taps();
  }  // rows of a column matrix
};

// Checks that weights of [filters, channels / groups, kernel...] fit the input.
Convolution read_convolution(const Attributes& attributes, const Shape& input,
                             const Tensor& weights);

// Columns per tile, which bounds the column buffer for any image size.
inline std::int64_t columns_at_once(std::int64_t depth) {
  constexpr std::int64_t kElements = 1 << 20;
  return std::max<std::int64_t>(64, kElements / std::max<std::int64_t>(1, depth));
}

// fill(image, group, first, count, to) writes `count` im2col columns starting at `first` as a
// matrix [depth, count]. `bias` is null or one value per filter.
template <class T, class Fill>
void convolve_columns(compute::Workers& workers, const Convolution& c, const T* weights,
                      const T* bias, T* y, const Fill& fill) {
  const std::int64_t outs = c.window.outs(), depth = c.depth(), rows = c.filters / c.groups;
  const std::int64_t max_columns = std::min(outs, columns_at_once(depth));
  const auto job = [&](std::int64_t at) {
    const std::int64_t image = at / c.groups, group = at % c.groups;
    const T* const w = weights + group * rows * depth;
    T* const to = y + (image * c.filters + group * rows) * outs;
    std::vector<T> columns(static_cast<std::size_t>(depth * max_columns));
    for (std::int64_t first = 0; first < outs; first += max_columns) {
      const std::int64_t count = std::min(max_columns, outs - first);
      fill(image, group, first, count, columns.data());
      kernels::matmul<T>(workers, rows, count, depth, {w, depth, 1}, {columns.data(), count, 1},
                         to + first, outs);
    }
    for (std::int64_t r = 0; bias != nullptr && r < rows; ++r)
      for (std::int64_t i = 0; i < outs; ++i) to[r * outs + i] += bias[group * rows + r];
  };
  const std::int64_t jobs = outs == 0 ? 0 : c.batch * c.groups;
  if (jobs < workers.threads()) {  // too few jobs: each GEMM is parallel instead
    for (std::int64_t at = 0; at < jobs; ++at) job(at);
    return;
  }
  workers.each(static_cast<std::size_t>(jobs), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) job(static_cast<std::int64_t>(at));
  });
}

// T is float, double or std::uint32_t (for 32-bit integers, which wrap around).
template <class T>
void convolve(compute::Workers& workers, const Convolution& c, const T* x, const T* weights,
              const T* bias, T* y);

}  // namespace sluice::engine
