// The window of a convolution or pool over the spatial axes of a tensor [N, C, ...].
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/shape.h"

namespace sluice::kernels {

// One to three axes. With fewer than three the first have size 1, so that loops are always over
// three.
struct Window {
  static constexpr std::size_t kAxes = 3;
  struct Axis {
    std::int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, out = 1;

    std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
    std::int64_t start(std::int64_t at) const { return at * stride - before; }
    // The kernel positions [first, last) that are inside the input when the window begins at
    // `from`.
    std::int64_t first(std::int64_t from) const {
      return from < 0 ? std::min(kernel, (-from + dilation - 1) / dilation) : 0;
    }
    std::int64_t last(std::int64_t from) const {
      const std::int64_t size = in - from;
      return size <= 0 ? 0 : std::min(kernel, (size + dilation - 1) / dilation);
    }
  };
  std::array<Axis, kAxes> axis{};
  int rank = 0;  // spatial axes in use

  std::span<Axis> axes() { return std::span(axis).subspan(kAxes - static_cast<std::size_t>(rank)); }
  std::span<const Axis> axes() const {
    return std::span(axis).subspan(kAxes - static_cast<std::size_t>(rank));
  }
  std::int64_t ins() const { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t outs() const { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t taps() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }

  // [n, c, outs...]
  Shape output(std::int64_t n, std::int64_t c) const {
    Shape shape{n, c};
    for (const Axis& a : axes()) shape.push_back(a.out);
    return shape;
  }
};

}  // namespace sluice::kernels
