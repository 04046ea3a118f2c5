// Signals and their spectra.
#include <cmath>
#include <numbers>

#include "engine/ops/families.h"
#include "engine/ops/signal/fourier.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

using Row = std::vector<std::complex<double>>;

// Longer transforms are rejected.
constexpr std::int64_t kMaxLength = 1 << 28;

// Rows along one axis of a tensor whose last axis has size 1 (real) or 2 (complex).
struct Rows {
  std::int64_t outer, length, inner, parts;

  Rows(const Shape& shape, int axis)
      : outer(shape.size(0, axis)),
        length(shape[axis]),
        inner(shape.size(axis + 1, shape.rank() - 1)),
        parts(shape[shape.rank() - 1]) {}

  std::int64_t at(std::int64_t row, std::int64_t i) const {
    return ((row / inner * length + i) * inner + row % inner) * parts;
  }
};

template <class T>
Row read_row(const Rows& rows, const T* from, std::int64_t row, std::int64_t max) {
  Row values(static_cast<std::size_t>(std::min(rows.length, max)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T* const value = from + rows.at(row, static_cast<std::int64_t>(i));
    values[i] = {static_cast<double>(value[0]),
                 rows.parts == 2 ? static_cast<double>(value[1]) : 0};
  }
  return values;
}

template <class T>
void write_row(const Rows& rows, const Row& values, std::int64_t row, T* to) {
  for (std::int64_t i = 0; i < rows.length; ++i) {
    T* const value = to + rows.at(row, i);
    value[0] = static_cast<T>(values[static_cast<std::size_t>(i)].real());
    if (rows.parts == 2) value[1] = static_cast<T>(values[static_cast<std::size_t>(i)].imag());
  }
}

// Restores the full spectrum of a real signal from its one-sided half.
void mirror(Row& spectrum, std::int64_t length) {
  const auto half = static_cast<std::size_t>(length / 2 + 1);
  spectrum.resize(half);
  for (auto i = half; i < static_cast<std::size_t>(length); ++i)
    spectrum.push_back(std::conj(spectrum[static_cast<std::size_t>(length) - i]));
}

struct Transform {
  int axis;
  std::int64_t length;  // transform length
  bool inverse, one_sided;
};

Transform read_transform(OpCall& call, const Shape& shape) {
  const Attributes& attributes = call.attributes();
  Transform t{0, 0, attributes.flag("inverse"), attributes.flag("onesided")};
  std::int64_t axis = call.version() < 20 ? attributes.integer("axis", 1) : -2;
  if (call.version() >= 20 && call.has(2)) axis = integer(call.input(2));
  t.axis = resolve_axis(axis, shape.rank());
  require(t.axis != shape.rank() - 1, "the last axis holds the parts of numbers");
  t.length = shape[t.axis];
  if (t.inverse && t.one_sided) t.length = std::max<std::int64_t>(1, 2 * (t.length - 1));
  if (call.has(1)) t.length = integer(call.input(1));
  require(t.length > 0 && t.length <= kMaxLength,
          "a transform of length " + std::to_string(t.length));
  return t;
}

template <class T>
void transform_rows(OpCall& call, const Transform& t, const Tensor& x, const Tensor& y) {
  const Fourier fourier(static_cast<std::size_t>(t.length), t.inverse);
  const Tensor workspace = fourier.workspace(call.workers.threads());
  const Rows from(x.shape(), t.axis), to(y.shape(), t.axis);
  const bool mirrored = t.inverse && t.one_sided;
  call.workers.each(static_cast<std::size_t>(from.outer * from.inner), 1,
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t i = begin; i < end; ++i) {
                        const auto row = static_cast<std::int64_t>(i);
                        Row values = read_row(from, as<T>(x).data(), row, t.length);
                        if (mirrored) mirror(values, t.length);
                        write_row(to, fourier(std::move(values)), row, as<T>(y).data());
                      }
                    });
}

// A one-sided transform maps a real signal to the first half of its spectrum, and back.
void dft(OpCall& call) {
  Shape shape = call.input(0).shape();
  const int last = shape.rank() - 1;
  require(last >= 1 && (shape[last] == 1 || shape[last] == 2),
          "a signal of shape " + to_string(shape));
  const Transform t = read_transform(call, shape);
  require(t.inverse || !t.one_sided || shape[last] == 1,
          "only a real signal has a one-sided spectrum");
  shape[t.axis] = t.one_sided && !t.inverse ? t.length / 2 + 1 : t.length;
  shape[last] = t.one_sided && t.inverse ? 1 : 2;
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor x = widened(call.input(0)), y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() { transform_rows<T>(call, t, x, y); });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

struct Frames {
  std::int64_t step, length, count = 0, bins = 0;
  std::vector<double> window{};
};

Frames read_frames(OpCall& call, const Shape& shape) {
  Frames f{.step = integer(call.input(1)), .length = -1};
  const Tensor window = widened(call.input_or_none(2));
  if (window) {
    f.length = window.size();
    visit_wide(window.dtype(), [&]<class T>() {
      for (const T value : as<T>(window)) f.window.push_back(static_cast<double>(value));
    });
  }
  if (call.has(3)) f.length = integer(call.input(3));
  require(f.length > 0 && f.length <= shape[1] && f.step > 0,
          "frames of " + std::to_string(f.length) + " each " + std::to_string(f.step));
  require(f.window.empty() || static_cast<std::int64_t>(f.window.size()) == f.length,
          "a window of " + std::to_string(f.window.size()));
  f.count = (shape[1] - f.length) / f.step + 1;
  const bool one_sided = call.attributes().flag("onesided", true);
  require(!one_sided || shape[2] == 1, "only a real signal has a one-sided spectrum");
  f.bins = one_sided ? f.length / 2 + 1 : f.length;
  return f;
}

template <class T>
void transform_frames(OpCall& call, const Frames& f, const Tensor& x, const Tensor& y) {
  const Fourier fourier(static_cast<std::size_t>(f.length), false);
  const Tensor workspace = fourier.workspace(call.workers.threads());
  const std::int64_t parts = x.shape()[2];
  const auto frames = static_cast<std::size_t>(x.shape()[0] * f.count);
  call.workers.each(frames, 1, [&](std::size_t begin, std::size_t end) {
    for (auto at = static_cast<std::int64_t>(begin); at < static_cast<std::int64_t>(end); ++at) {
      const std::int64_t first = at / f.count * x.shape()[1] + at % f.count * f.step;
      Row row(static_cast<std::size_t>(f.length));
      for (std::size_t i = 0; i < row.size(); ++i) {
        const T* const value = as<T>(x).data() + (first + static_cast<std::int64_t>(i)) * parts;
        row[i] = {static_cast<double>(value[0]), parts == 2 ? static_cast<double>(value[1]) : 0};
        if (!f.window.empty()) row[i] *= f.window[i];
      }
      const Row spectrum = fourier(std::move(row));
      T* const to = as<T>(y).data() + at * f.bins * 2;
      for (std::int64_t i = 0; i < f.bins; ++i) {
        to[2 * i] = static_cast<T>(spectrum[static_cast<std::size_t>(i)].real());
        to[2 * i + 1] = static_cast<T>(spectrum[static_cast<std::size_t>(i)].imag());
      }
    }
  });
}

void stft(OpCall& call) {
  Tensor x = widened(call.input(0));
  if (x.rank() == 2) x = x.reshaped(Shape{x.shape()[0], x.shape()[1], 1});
  require(x.rank() == 3 && (x.shape()[2] == 1 || x.shape()[2] == 2),
          "a signal of shape " + to_string(x.shape()));
  const Frames frames = read_frames(call, x.shape());
  const Shape shape{x.shape()[0], frames.count, frames.bins, 2};
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() { transform_frames<T>(call, frames, x, y); });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

// The window a0 - a1 cos(x) + a2 cos(2x).
template <class Coefficients>
void window(OpCall& call) {
  const std::int64_t size = integer(call.input(0));
  require(size >= 0 && size <= kMaxLength, "a window of " + std::to_string(size));
  const bool periodic = call.attributes().flag("periodic", true);
  const DType type = call.attributes().dtype("output_datatype", DType::f32);
  call.declare_output(0, type, Shape{size});
  const Tensor y(DType::f64, Shape{size});
  const auto around = static_cast<double>(periodic ? size : size - 1);
  for (std::size_t i = 0; i < as<double>(y).size(); ++i) {
    const double x = 2 * std::numbers::pi * static_cast<double>(i) / around;
    as<double>(y)[i] = size == 1 ? 1
                                 : Coefficients::a0 - Coefficients::a1 * std::cos(x) +
                                       Coefficients::a2 * std::cos(2 * x);
  }
  call.set_output(0, narrowed(y, type));
}

struct Hann {
  static constexpr double a0 = 0.5, a1 = 0.5, a2 = 0;
};
struct Hamming {
  static constexpr double a0 = 25.0 / 46.0, a1 = 21.0 / 46.0, a2 = 0;
};
struct Blackman {
  static constexpr double a0 = 0.42, a1 = 0.5, a2 = 0.08;
};

// Start, peak and end of the triangular mel filters, in spectrum bins.
std::vector<std::int64_t> mel_edges(std::int64_t bins, std::int64_t length, double rate,
                                    double lower, double upper) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = to_mel(lower), step = (to_mel(upper) - low) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double mel = static_cast<double>(i) * step + low;
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / rate);
    require(edge >= 0 && edge <= static_cast<double>(length / 2 + 1),
            "the edges lie outside of the spectrum");
    edges.push_back(static_cast<std::int64_t>(edge));
  }
  return edges;
}

void mel_weight_matrix(OpCall& call) {
  const std::int64_t bins = integer(call.input(0)), length = integer(call.input(1));
  const auto rate = static_cast<double>(integer(call.input(2)));
  require(bins > 0 && bins <= (1 << 20) && length > 0 && length <= kMaxLength && rate > 0,
          "a matrix of " + std::to_string(bins) + " bins for " + std::to_string(length));
  const auto edges = mel_edges(bins, length, rate, number(call.input(3)), number(call.input(4)));
  const std::int64_t rows = length / 2 + 1;
  const DType type = call.attributes().dtype("output_datatype", DType::f32);
  call.declare_output(0, type, Shape{rows, bins});
  const Tensor y(DType::f64, Shape{rows, bins});
  std::fill(as<double>(y).begin(), as<double>(y).end(), 0.0);
  for (std::int64_t i = 0; i < bins; ++i) {
    const auto* const edge = edges.data() + i;
    const auto set = [&](std::int64_t row, double weight) {
      if (row < rows) as<double>(y)[static_cast<std::size_t>(row * bins + i)] = weight;
    };
    const std::int64_t rise = edge[1] - edge[0], fall = edge[2] - edge[1];
    if (rise == 0) set(edge[1], 1);
    for (std::int64_t j = edge[0]; rise > 0 && j <= edge[1]; ++j)
      set(j, static_cast<double>(j - edge[0]) / static_cast<double>(rise));
    for (std::int64_t j = edge[1]; fall > 0 && j < edge[2]; ++j)
      set(j, static_cast<double>(edge[2] - j) / static_cast<double>(fall));
  }
  call.set_output(0, narrowed(y, type));
}

constexpr Types kSizes{DType::i32, DType::i64};

constexpr Op kSignalOps[] = {
    {"DFT", 17, kReals, dft},
    {"STFT", 17, kReals, stft},
    {"HannWindow", 17, kSizes, window<Hann>},
    {"HammingWindow", 17, kSizes, window<Hamming>},
    {"BlackmanWindow", 17, kSizes, window<Blackman>},
    {"MelWeightMatrix", 17, kSizes, mel_weight_matrix},
};

}  // namespace

std::span<const Op> signal_ops() { return kSignalOps; }

}  // namespace sluice::engine
