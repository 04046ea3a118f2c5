#include "engine/ops/vision/resample.h"

#include <cmath>
#include <numeric>

namespace sluice::engine {
namespace {

// The source coordinate of an output element.
double position_of(Coordinates how, const AxisSize& axis, std::int64_t i) {
  const auto x = static_cast<double>(i), from = static_cast<double>(axis.from);
  const double to = axis.scale * from;
  switch (how) {
    case Coordinates::half_pixel: return (x + 0.5) / axis.scale - 0.5;
    case Coordinates::half_pixel_symmetric:
      // Keeps the center fixed although the size is rounded to an integer.
      return from / 2 * (1 - static_cast<double>(axis.to) / to) + (x + 0.5) / axis.scale - 0.5;
    case Coordinates::pytorch_half_pixel: return axis.to == 1 ? 0 : (x + 0.5) / axis.scale - 0.5;
    case Coordinates::align_corners: return axis.to == 1 ? 0 : x * (from - 1) / (to - 1);
    case Coordinates::asymmetric: return x / axis.scale;
    case Coordinates::tf_half_pixel_for_nn: return (x + 0.5) / axis.scale;
    case Coordinates::tf_crop_and_resize: {
      const double width = axis.roi_end - axis.roi_begin;
      const double along =
          axis.to == 1 ? width * (from - 1) / 2 : x * width * (from - 1) / (to - 1);
      return along + axis.roi_begin * (from - 1);
    }
  }
  return x;
}

bool takes_right(Nearest how, double ratio, double scale) {
  if (ratio == 1) return true;  // exactly on the element
  switch (how) {
    case Nearest::round_prefer_floor: return ratio > 0.5;
    case Nearest::round_prefer_ceil: return ratio >= 0.5;
    case Nearest::floor: return false;
    case Nearest::ceil: return true;
    case Nearest::by_scale: return scale < 1;
  }
  return false;
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// The weights of elements -count / 2 + 1 to count / 2 relative to the left neighbor; `ratio` is the
// distance from it. With antialias, downsampling widens the kernel by the scale.
std::vector<double> weights_of(const Resampling& how, double ratio, double scale) {
  const double narrow = how.antialias ? std::min(scale, 1.0) : 1.0;
  const double reach = how.kernel == Resampler::cubic ? 2 : 1;
  const auto first = static_cast<std::int64_t>(std::floor(-reach / narrow)) + 1;
  std::vector<double> weights;
  for (std::int64_t i = first; i < 2 - first; ++i) {
    const double x = (static_cast<double>(i) - ratio) * narrow;
    weights.push_back(how.kernel == Resampler::cubic ? cubic(how.cubic_a, x)
                                                     : std::clamp(1 - std::abs(x), 0.0, 1.0));
  }
  return weights;
}

void normalize(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum == 0) return;
  for (double& weight : weights) weight /= sum;
}

Taps taps_at(const Resampling& how, const AxisSize& axis, std::int64_t i) {
  const double position = position_of(how.coordinates, axis, i);
  const auto size = static_cast<double>(axis.from);
  Taps taps;
  taps.outside_roi = how.coordinates == Coordinates::tf_crop_and_resize &&
                     !(position >= 0 && position <= size - 1);
  const double near = std::clamp(position, -2.0, size + 1);  // beyond that only the edge matters
  const double left = std::ceil(near) - 1, ratio = near - left;  // in (0, 1]
  if (how.kernel == Resampler::nearest) {
    taps.first =
        static_cast<std::int64_t>(left) + (takes_right(how.nearest, ratio, axis.scale) ? 1 : 0);
    taps.weights = {1};
    return taps;
  }
  taps.weights = weights_of(how, ratio, axis.scale);
  taps.first =
      static_cast<std::int64_t>(left) + 1 - static_cast<std::int64_t>(taps.weights.size() / 2);
  for (std::size_t k = 0; how.exclude_outside && k < taps.weights.size(); ++k) {
    const std::int64_t at = taps.first + static_cast<std::int64_t>(k);
    if (at < 0 || at >= axis.from) taps.weights[k] = 0;
  }
  if (how.antialias || how.exclude_outside) normalize(taps.weights);
  return taps;
}

template <class T>
struct Pass {
  const T* from;
  T* to;
  std::int64_t size, inner;
  const std::vector<Taps>& taps;
  T extrapolation;

  void row(std::int64_t outer, std::size_t i) const {
    T* const target =
        to +
        (outer * static_cast<std::int64_t>(taps.size()) + static_cast<std::int64_t>(i)) * inner;
    if (taps[i].outside_roi) {
      std::fill_n(target, inner, extrapolation);
      return;
    }
    std::fill_n(target, inner, T(0));
    for (std::size_t k = 0; k < taps[i].weights.size(); ++k) {
      const auto weight = static_cast<T>(taps[i].weights[k]);
      const std::int64_t at =
          std::clamp<std::int64_t>(taps[i].first + static_cast<std::int64_t>(k), 0, size - 1);
      const T* const source = from + (outer * size + at) * inner;
      if (weight != 0)
        for (std::int64_t j = 0; j < inner; ++j) target[j] += weight * source[j];
    }
  }
};

}  // namespace

AxisTaps taps_of(const Resampling& how, const AxisSize& axis) {
  check_antialias(how, axis);
  const double narrow = how.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const auto widest = static_cast<std::int64_t>(4 / narrow) + 4;
  constexpr auto kDoubles = static_cast<std::int64_t>((sizeof(Taps) + 32) / sizeof(double));
  AxisTaps taps{Tensor(DType::f64, Shape{axis.to, widest + kDoubles})};
  taps.all.reserve(static_cast<std::size_t>(axis.to));
  for (std::int64_t i = 0; i < axis.to; ++i) taps.all.push_back(taps_at(how, axis, i));
  return taps;
}

void check_antialias(const Resampling& how, const AxisSize& axis) {
  require(axis.scale > 1e-6 || !how.antialias, "antialias over that many elements");
}

std::vector<std::int64_t> nearest_of(const std::vector<Taps>& taps, std::int64_t size) {
  std::vector<std::int64_t> indices;
  for (const Taps& one : taps) indices.push_back(std::clamp<std::int64_t>(one.first, 0, size - 1));
  return indices;
}

Tensor resampled(const Tensor& tensor, int axis, const std::vector<Taps>& taps,
                 double extrapolation, compute::Workers& workers) {
  Shape shape = tensor.shape();
  const std::int64_t size = shape[axis];
  shape[axis] = static_cast<std::int64_t>(taps.size());
  Tensor out(tensor.dtype(), shape);
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  const auto rows = static_cast<std::size_t>(shape.size(0, axis)) * taps.size();
  const auto grain = static_cast<std::size_t>(1 + 4096 / (inner + 1));
  visit_types<float, double>(tensor.dtype(), [&]<class T>() {
    const Pass<T> pass{tensor.values<T>().data(),    out.values<T>().data(), size, inner, taps,
                       static_cast<T>(extrapolation)};
    workers.each(rows, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        pass.row(static_cast<std::int64_t>(i / taps.size()), i % taps.size());
    });
  });
  return out;
}

}  // namespace sluice::engine
