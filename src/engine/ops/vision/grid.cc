// GridSample and AffineGrid.
#include <cmath>

#include "engine/ops/families.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

enum class Around { zeros, border, reflection };
enum class Mode { nearest, linear, cubic };

struct Settings {
  Mode mode;
  Around around;
  bool corners;  // -1 and 1 are the centres of the outermost pixels, not their outer edges
  int axes;
};

Settings read_settings(const Attributes& attributes, int axes) {
  Settings s{Mode::linear, Around::zeros, attributes.flag("align_corners"), axes};
  const std::string mode = attributes.string("mode", "linear");
  if (mode == "nearest")
    s.mode = Mode::nearest;
  else if (mode == "cubic" || mode == "bicubic")
    s.mode = Mode::cubic;
  else
    require(mode == "linear" || mode == "bilinear", "mode '" + mode + "' is not known");
  const std::string around = attributes.string("padding_mode", "zeros");
  if (around == "border")
    s.around = Around::border;
  else if (around == "reflection")
    s.around = Around::reflection;
  else
    require(around == "zeros", "padding_mode '" + around + "' is not known");
  return s;
}

// Reflects a coordinate into the bounds.
template <class F>
F reflected(F at, F min, F max) {
  const F range = max - min;
  if (range <= 0) return min;
  const bool below = at < min;
  if (!below && at <= max) return at;
  const F past = below ? min - at : at - max;
  const F times = std::floor(past / range), rest = past - times * range;
  const bool even = std::fmod(times, F(2)) == 0;
  return below == even ? min + rest : max - rest;
}

// The pixels and weights of one sample along one axis; index -1 reads zero.
template <class F>
struct Taps {
  std::array<std::int64_t, 4> index{};
  std::array<F, 4> weight{1, 0, 0, 0};
  int count = 1;
};

template <class F>
void cubic_weights(F x, std::array<F, 4>& w) {
  const F a = F(-0.75);
  const auto outer = [a](F d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto inner = [a](F d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  w = {outer(x + 1), inner(x), inner(1 - x), outer(2 - x)};
}

template <class F>
class AxisReader {
 public:
  AxisReader(const Settings& settings, std::int64_t size)
      : s_(settings),
        size_(size),
        min_(settings.corners ? F(0) : F(-0.5)),
        max_(static_cast<F>(size) - (settings.corners ? F(1) : F(0.5))) {}

  Taps<F> at(F normal) const {
    const auto size = static_cast<F>(size_);
    F x = s_.corners ? (normal + 1) / 2 * (size - 1) : ((normal + 1) * size - 1) / 2;
    if (s_.mode == Mode::nearest) x = std::nearbyint(x);  // ties to the even pixel
    x = inside(x);
    Taps<F> taps;
    const F low = std::floor(x);
    const auto first = static_cast<std::int64_t>(low);
    if (s_.mode == Mode::nearest) {
      taps.index[0] = pixel(static_cast<std::int64_t>(x));
    } else if (s_.mode == Mode::linear) {
      taps.count = 2;
      taps.index = {pixel(first), pixel(first + 1)};
      taps.weight = {1 - (x - low), x - low};
    } else {
      taps.count = 4;
      for (int i = 0; i < 4; ++i) taps.index[static_cast<std::size_t>(i)] = pixel(first - 1 + i);
      cubic_weights(x - low, taps.weight);
    }
    return taps;
  }

 private:
  // A coordinate that can be converted to an index.
  F inside(F x) const {
    if (s_.around == Around::border && (x < min_ || x > max_))
      x = std::clamp(x, F(0), static_cast<F>(size_ - 1));
    if (s_.around == Around::reflection && std::isfinite(x)) x = reflected(x, min_, max_);
    if (std::isnan(x)) return F(-8);
    return std::clamp(x, F(-8), static_cast<F>(size_) + 8);
  }

  std::int64_t pixel(std::int64_t i) const {
    if (s_.around == Around::zeros) return i >= 0 && i < size_ ? i : -1;
    if (s_.around == Around::reflection)
      i = static_cast<std::int64_t>(reflected(static_cast<F>(i), min_, max_));
    return std::clamp<std::int64_t>(i, 0, size_ - 1);
  }

  Settings s_;
  std::int64_t size_;
  F min_, max_;
};

template <class F>
using Sample = std::array<Taps<F>, 3>;

template <class F>
F read_sample(const F* image, const std::array<std::int64_t, 3>& size, const Sample<F>& sample) {
  F sum = 0;
  const auto& [deep, high, wide] = sample;
  for (std::size_t i = 0; i < static_cast<std::size_t>(deep.count); ++i) {
    if (deep.index[i] < 0) continue;
    for (std::size_t j = 0; j < static_cast<std::size_t>(high.count); ++j) {
      if (high.index[j] < 0) continue;
      const F* const row = image + (deep.index[i] * size[1] + high.index[j]) * size[2];
      F along = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(wide.count); ++k)
        if (wide.index[k] >= 0) along += wide.weight[k] * row[wide.index[k]];
      sum += deep.weight[i] * high.weight[j] * along;
    }
  }
  return sum;
}

template <class F>
void sample(OpCall& call, const Settings& s, const Tensor& x, const Tensor& grid, const Tensor& y) {
  std::array<std::int64_t, 3> size{1, 1, 1};
  std::vector<AxisReader<F>> readers;
  for (int i = 0; i < s.axes; ++i) {
    size[static_cast<std::size_t>(3 - s.axes + i)] = x.shape()[2 + i];
    readers.emplace_back(s, x.shape()[2 + i]);
  }
  const std::int64_t channels = x.shape()[1], image = x.shape().size(2, x.rank());
  const std::int64_t pixels = y.shape().size(2, y.rank());
  const auto count = static_cast<std::size_t>(x.shape()[0] * pixels);
  call.workers.each(count, 1024, [&](std::size_t begin, std::size_t end) {
    for (auto at = static_cast<std::int64_t>(begin); at < static_cast<std::int64_t>(end); ++at) {
      // The grid stores the last axis first.
      const F* const normal = as<F>(grid).data() + at * s.axes;
      Sample<F> taps;
      for (int i = 0; i < s.axes; ++i)
        taps[static_cast<std::size_t>(3 - s.axes + i)] =
            readers[static_cast<std::size_t>(i)].at(normal[s.axes - 1 - i]);
      const std::int64_t n = at / pixels;
      for (std::int64_t c = 0; c < channels; ++c)
        as<F>(y)[static_cast<std::size_t>((n * channels + c) * pixels + at % pixels)] =
            read_sample(as<F>(x).data() + (n * channels + c) * image, size, taps);
    }
  });
}

void grid_sample(OpCall& call) {
  Tensor x = call.input(0), grid = call.input(1);
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3)
    throw Error(Code::unavailable, "images of " + to_string(x.shape()) + " are not supported");
  require(grid.rank() == x.rank() && grid.shape()[0] == x.shape()[0] &&
              grid.shape()[grid.rank() - 1] == axes,
          "a grid of " + to_string(grid.shape()) + " for images of " + to_string(x.shape()));
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int i = 1; i <= axes; ++i) shape.push_back(grid.shape()[i]);
  require(x.size() > 0 || shape.size() == 0, "the image is empty");
  const Settings settings = read_settings(call.attributes(), axes);
  if (kReals.has(grid.dtype())) call.declare_output(0, x.dtype(), shape);
  x = widened(x);
  grid = narrowed(widened(grid), x.dtype());
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class F>() { sample<F>(call, settings, x, grid, y); });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

// The coordinate of each pixel along an axis, from -1 to 1.
std::vector<double> coordinates_of(std::int64_t size, bool corners) {
  std::vector<double> coordinates(static_cast<std::size_t>(size));
  const auto n = static_cast<double>(size);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const auto at = static_cast<double>(i);
    coordinates[i] = corners ? (size == 1 ? 0 : 2 * at / (n - 1) - 1) : (2 * at + 1) / n - 1;
  }
  return coordinates;
}

template <class F>
void affine(const Tensor& theta, const std::array<std::vector<double>, 3>& coordinates, int axes,
            const Tensor& grid) {
  F* to = as<F>(grid).data();
  for (std::int64_t n = 0; n < theta.shape()[0]; ++n) {
    const F* const matrix = as<F>(theta).data() + n * axes * (axes + 1);
    for (const double z : coordinates[0])
      for (const double y : coordinates[1])
        for (const double x : coordinates[2]) {
          const std::array<double, 4> from =
              axes == 2 ? std::array<double, 4>{x, y, 1, 0} : std::array<double, 4>{x, y, z, 1};
          for (int r = 0; r < axes; ++r) {
            double sum = 0;
            for (int c = 0; c <= axes; ++c)
              sum += static_cast<double>(matrix[r * (axes + 1) + c]) *
                     from[static_cast<std::size_t>(c)];
            *to++ = static_cast<F>(sum);
          }
        }
  }
}

void affine_grid(OpCall& call) {
  const Tensor theta = widened(call.input(0));
  const std::vector<std::int64_t> size = call.integers(1);
  const int axes = static_cast<int>(size.size()) - 2;
  require(axes == 2 || axes == 3, "a size of " + std::to_string(size.size()) + " axes");
  require(theta.shape() == Shape({size[0], axes, axes + 1}),
          "matrices of " + to_string(theta.shape()) + " for " + std::to_string(axes) + " axes");
  const bool corners = call.attributes().flag("align_corners");
  Shape shape{size[0]};
  std::array<std::vector<double>, 3> coordinates{std::vector<double>{0}};
  for (int i = 0; i < axes; ++i) shape.push_back(size[static_cast<std::size_t>(i) + 2]);
  shape.push_back(axes);
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor grid(theta.dtype(), shape);
  for (int i = 0; i < axes; ++i)
    coordinates[static_cast<std::size_t>(3 - axes + i)] =
        coordinates_of(size[static_cast<std::size_t>(i) + 2], corners);
  visit_wide(theta.dtype(), [&]<class F>() { affine<F>(theta, coordinates, axes, grid); });
  call.set_output(0, narrowed(grid, call.input(0).dtype()));
}

constexpr Op kGridOps[] = {
    {"GridSample", 16, kNumbers, grid_sample},
    {"AffineGrid", 20, kReals, affine_grid},
};

}  // namespace

std::span<const Op> grid_ops() { return kGridOps; }

}  // namespace sluice::engine
