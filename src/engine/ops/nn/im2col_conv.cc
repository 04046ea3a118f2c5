#include "engine/ops/nn/im2col_conv.h"

namespace sluice::engine {
namespace {

// The values of one kernel position for one output row: `count` elements from `at` on along the
// last axis of the input row `from`.
template <class T>
void copy_seen(const T* from, const Window::Axis& axis, std::int64_t tap, std::int64_t at,
               std::int64_t count, T* to) {
  std::int64_t i = axis.start(at) + tap * axis.dilation;
  for (std::int64_t k = 0; k < count; ++k, i += axis.stride)
    to[k] = i >= 0 && i < axis.in ? from[i] : T(0);
}

// One im2col row: kernel position (a, b, c) of one channel, columns [first, first + count).
template <class T>
void fill_row(const T* channel, const Window& window, std::array<std::int64_t, 3> tap,
              std::int64_t first, std::int64_t count, T* to) {
  const auto& [deep, high, wide] = window.axis;
  while (count > 0) {
    const std::int64_t at = first % wide.out, line = first / wide.out;
    const std::int64_t run = std::min(count, wide.out - at);
    const std::int64_t i = deep.start(line / high.out) + tap[0] * deep.dilation;
    const std::int64_t j = high.start(line % high.out) + tap[1] * high.dilation;
    if (i < 0 || i >= deep.in || j < 0 || j >= high.in)
      std::fill(to, to + run, T(0));
    else
      copy_seen(channel + (i * high.in + j) * wide.in, wide, tap[2], at, run, to);
    to += run;
    first += run;
    count -= run;
  }
}

// A 1x1 convolution: the image itself is the column matrix.
bool sees_one_pixel(const Window& window) {
  return std::all_of(window.axis.begin(), window.axis.end(), [](const Window::Axis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.before == 0 && axis.after == 0;
  });
}

template <class T>
void convolve_pixels(compute::Workers& workers, const Convolution& c, const T* x, const T* weights,
                     const T* bias, T* y) {
  const std::int64_t size = c.window.ins(), depth = c.channels / c.groups;
  const std::int64_t rows = c.filters / c.groups;
  for (std::int64_t at = 0; at < c.batch * c.groups; ++at) {
    const std::int64_t group = at % c.groups;
    kernels::matmul<T>(workers, rows, size, depth, {weights + group * rows * depth, depth, 1},
                       {x + at * depth * size, size, 1}, y + at * rows * size, size);
    for (std::int64_t r = 0; bias != nullptr && r < rows; ++r)
      for (std::int64_t i = 0; i < size; ++i)
        y[(at * rows + r) * size + i] += bias[group * rows + r];
  }
}

}  // namespace

Convolution read_convolution(const Attributes& attributes, const Shape& input,
                             const Tensor& weights) {
  const Window window = read_window(attributes, input, weights);
  Convolution c{input[0], input[1], weights.shape()[0], attributes.integer("group", 1), window};
  require(c.groups > 0 && c.channels % c.groups == 0 && c.filters % c.groups == 0 &&
              weights.shape()[1] == c.channels / c.groups,
          "weights of shape " + to_string(weights.shape()) + " in " + std::to_string(c.groups) +
              " groups for an input of " + to_string(input));
  return c;
}

template <class T>
void convolve(compute::Workers& workers, const Convolution& c, const T* x, const T* weights,
              const T* bias, T* y) {
  if (sees_one_pixel(c.window) && c.groups == 1)
    return convolve_pixels(workers, c, x, weights, bias, y);
  const std::int64_t own = c.channels / c.groups, size = c.window.ins();
  convolve_columns(
      workers, c, weights, bias, y,
      [&](std::int64_t image, std::int64_t group, std::int64_t first, std::int64_t count, T* to) {
        for (std::int64_t channel = 0; channel < own; ++channel) {
          const T* const from = x + (image * c.channels + group * own + channel) * size;
          for (std::int64_t i = 0; i < c.window.axis[0].kernel; ++i)
            for (std::int64_t j = 0; j < c.window.axis[1].kernel; ++j)
              for (std::int64_t k = 0; k < c.window.axis[2].kernel; ++k, to += count)
                fill_row(from, c.window, {i, j, k}, first, count, to);
        }
      });
}

template void convolve(compute::Workers&, const Convolution&, const float*, const float*,
                       const float*, float*);
template void convolve(compute::Workers&, const Convolution&, const double*, const double*,
                       const double*, double*);
template void convolve(compute::Workers&, const Convolution&, const std::uint32_t*,
                       const std::uint32_t*, const std::uint32_t*, std::uint32_t*);

}  // namespace sluice::engine
