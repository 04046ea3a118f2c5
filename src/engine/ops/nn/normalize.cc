// Layer, group, instance, RMS and Lp normalization, and LRN.
#include "engine/ops/nn/normalize.h"

#include <cmath>
#include <functional>

#include "engine/ops/axes.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// Accumulates in several independent sums, for SIMD.
template <class T, class F>
double sum_of(const T* x, std::int64_t n, F&& f) {
  constexpr std::int64_t kSums = 8;
  double sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (std::int64_t k = 0; k < kSums; ++k) sums[k] += f(static_cast<double>(x[i + k]));
  double sum = 0;
  for (; i < n; ++i) sum += f(static_cast<double>(x[i]));
  for (const double part : sums) sum += part;
  return sum;
}

struct Moments {
  double mean, variance;

  template <class T>
  Moments(const T* x, std::int64_t n) {
    const auto count = static_cast<double>(n);
    mean = sum_of(x, n, [](double value) { return value; }) / count;
    variance =
        sum_of(x, n, [this](double value) { return (value - mean) * (value - mean); }) / count;
  }
};

double inverse(double variance, float epsilon) {
  return 1 / std::sqrt(variance + static_cast<double>(epsilon));
}

// Rows of n elements; no work if n is 0, however many rows there are.
void each_row(OpCall& call, std::int64_t rows, std::int64_t n,
              const std::function<void(std::int64_t)>& body) {
  if (n == 0) return;
  const auto grain =
      static_cast<std::size_t>(std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(1, n)));
  call.workers.each(static_cast<std::size_t>(rows), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(static_cast<std::int64_t>(row));
  });
}

Tensor broadcast_to(const Tensor& from, const Shape& shape) {
  require(broadcast(from.shape(), shape) == shape,
          "shape " + to_string(from.shape()) + " does not broadcast to " + to_string(shape));
  if (from.shape() == shape) return from;
  const Tensor to(from.dtype(), shape);
  visit_wide_reals(from.dtype(), [&]<class T>() {
    const T* const x = as<T>(from).data();
    T* const y = as<T>(to).data();
    BroadcastLoop<1>(shape, {from.shape()})
        .each_row([&](std::int64_t at, const auto& own, std::int64_t count, const auto& step) {
          for (std::int64_t i = 0; i < count; ++i) y[at + i] = x[own[0] + i * step[0]];
        });
  });
  return to;
}

// The scale or bias of each row: one list for all rows if possible, else one per row.
struct Factors {
  Tensor values;
  std::int64_t step = 0;  // row stride

  Factors(const Tensor& from, DType wide, const Shape& shape, int axis) {
    if (!from) return;
    const Shape tail(shape.dims().subspan(static_cast<std::size_t>(axis)));
    const Tensor all = converted(from, wide);
    bool same = all.rank() <= tail.rank();
    for (int i = 1; same && i <= all.rank(); ++i)
      same =
          all.shape()[all.rank() - i] == 1 || all.shape()[all.rank() - i] == tail[tail.rank() - i];
    values = broadcast_to(all, same ? tail : shape);
    if (!same) step = tail.size();
  }
  template <class T>
  const T* row(std::int64_t i) const {
    return values ? as<T>(values).data() + i * step : nullptr;
  }
};

// Normalizes over the axes from `axis` on. `centre`: subtracts the mean (not in RMSNormalization).
void normalize_rows(OpCall& call, bool centre) {
  const Tensor& in = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", -1), in.rank());
  const float epsilon = call.attributes().real("epsilon", 1e-5f);
  const DType wide = wide_real(in.dtype());
  const DType stash = call.attributes().dtype("stash_type", DType::f32);
  const Factors scale(call.input(1), wide, in.shape(), axis);
  const Factors bias(centre ? call.input_or_none(2) : Tensor(), wide, in.shape(), axis);
  const std::int64_t rows = in.shape().size(0, axis), n = in.shape().size(axis, in.rank());
  require(n > 0, "rows without elements have no mean");
  Shape stats = in.shape();
  for (int i = axis; i < stats.rank(); ++i) stats[i] = 1;
  call.declare_output(0, in.dtype(), in.shape());
  if (centre) call.declare_output(1, stash, stats), call.declare_output(2, stash, stats);
  const Tensor x = converted(in, wide), y(wide, in.shape());
  const Tensor mean(DType::f64, stats), inv(DType::f64, stats);
  visit_wide_reals(wide, [&]<class T>() {
    each_row(call, rows, n, [&](std::int64_t row) {
      const T* const from = as<T>(x).data() + row * n;
      T* const to = as<T>(y).data() + row * n;
      const Moments moments(from, n);
      const double middle = centre ? moments.mean : 0;
      const double power =
          centre ? moments.variance : moments.variance + moments.mean * moments.mean;
      const double by = inverse(power, epsilon);
      const T *const s = scale.row<T>(row), *const b = bias.row<T>(row);
      for (std::int64_t i = 0; i < n; ++i) {
        const double value =
            (static_cast<double>(from[i]) - middle) * by * static_cast<double>(s[i]);
        to[i] = static_cast<T>(b != nullptr ? value + static_cast<double>(b[i]) : value);
      }
      mean.values<double>()[static_cast<std::size_t>(row)] = middle;
      inv.values<double>()[static_cast<std::size_t>(row)] = by;
    });
  });
  call.set_output(0, converted(y, in.dtype()));
  if (!centre) return;
  if (call.wants(1)) call.set_output(1, converted(mean, stash));
  if (call.wants(2)) call.set_output(2, converted(inv, stash));
}

void layer_norm(OpCall& call) { normalize_rows(call, true); }
void rms_norm(OpCall& call) { normalize_rows(call, false); }

// Input i widened, with one value for each of `count`.
Tensor numbers(OpCall& call, std::size_t i, DType wide, std::int64_t count) {
  const Tensor& tensor = call.input(i);
  require(tensor.size() == count, "input " + std::to_string(i) + " must have " +
                                      std::to_string(count) + " numbers, not " +
                                      std::to_string(tensor.size()));
  return converted(tensor, wide);
}

// Normalizes each of `groups` channel groups per image; scale and bias are per channel, or per
// group in the first version of GroupNormalization.
void normalize_groups(OpCall& call, std::int64_t groups, bool per_group) {
  const Tensor& in = call.input(0);
  const std::int64_t channels = in.shape()[1];
  require(groups > 0 && channels % groups == 0, std::to_string(channels) +
                                                    " channels do not fall into " +
                                                    std::to_string(groups) + " groups");
  const std::int64_t each = channels / groups, pixels = in.shape().size(2, in.rank());
  const DType wide = wide_real(in.dtype());
  const std::int64_t count = per_group ? groups : channels;
  const Tensor scale = numbers(call, 1, wide, count), bias = numbers(call, 2, wide, count);
  call.declare_output(0, in.dtype(), in.shape());
  const Tensor x = converted(in, wide), y(wide, in.shape());
  const float epsilon = call.attributes().real("epsilon", 1e-5f);
  visit_wide_reals(wide, [&]<class T>() {
    each_row(call, in.shape()[0] * groups, each * pixels, [&](std::int64_t row) {
      const T* from = as<T>(x).data() + row * each * pixels;
      T* to = as<T>(y).data() + row * each * pixels;
      const Moments moments(from, each * pixels);
      const double by = inverse(moments.variance, epsilon);
      for (std::int64_t c = 0; c < each; ++c) {
        const std::int64_t group = row % groups;
        const auto k = static_cast<std::size_t>(per_group ? group : group * each + c);
        const double s = by * static_cast<double>(as<T>(scale)[k]);
        const double b = static_cast<double>(as<T>(bias)[k]);
        for (std::int64_t i = 0; i < pixels; ++i)
          *to++ = static_cast<T>((static_cast<double>(*from++) - moments.mean) * s + b);
      }
    });
  });
  call.set_output(0, converted(y, in.dtype()));
}

void need_channels(const Tensor& in) {
  require(in.rank() >= 2, "the input must have a batch and a channel axis");
}

void group_norm(OpCall& call) {
  need_channels(call.input(0));
  normalize_groups(call, call.attributes().integer("num_groups"), call.version() < 21);
}

void instance_norm(OpCall& call) {
  need_channels(call.input(0));
  normalize_groups(call, std::max<std::int64_t>(1, call.input(0).shape()[1]), false);
}

// MeanVarianceNormalization.
void mean_variance(OpCall& call) {
  const Tensor& in = call.input(0);
  const DType wide = wide_real(in.dtype());
  Shape stats = in.shape();
  const auto axes = call.attributes().integers("axes", {0, 2, 3});
  for (const int axis : resolve_axes(axes, in.rank())) stats[axis] = 1;
  call.declare_output(0, in.dtype(), in.shape());
  const Tensor x = converted(in, wide), y(wide, in.shape());
  if (in.size() == 0) return call.set_output(0, converted(y, in.dtype()));
  std::vector<double> mean(static_cast<std::size_t>(stats.size())), power(mean.size());
  const BroadcastLoop<1> loop(in.shape(), {stats});
  visit_wide_reals(wide, [&]<class T>() {
    const auto each = [&](const auto& body) {
      loop.each_row([&](std::int64_t at, const auto& own, std::int64_t count, const auto& step) {
        for (std::int64_t i = 0; i < count; ++i)
          body(static_cast<std::size_t>(at + i), static_cast<std::size_t>(own[0] + i * step[0]));
      });
    };
    const auto from = as<T>(x), to = as<T>(y);
    const double n = static_cast<double>(from.size()) / static_cast<double>(mean.size());
    each([&](std::size_t i, std::size_t k) { mean[k] += static_cast<double>(from[i]) / n; });
    each([&](std::size_t i, std::size_t k) {
      const double off = static_cast<double>(from[i]) - mean[k];
      power[k] += off * off / n;
    });
    each([&](std::size_t i, std::size_t k) {
      to[i] =
          static_cast<T>((static_cast<double>(from[i]) - mean[k]) / (std::sqrt(power[k]) + 1e-9));
    });
  });
  call.set_output(0, converted(y, in.dtype()));
}

// LpNormalization: vectors of zeros stay zero.
void lp_norm(OpCall& call) {
  const Tensor& in = call.input(0);
  const int axis = resolve_axis(call.attributes().integer("axis", -1), in.rank());
  const std::int64_t p = call.attributes().integer("p", 2);
  require(p == 1 || p == 2, "p must be 1 or 2, not " + std::to_string(p));
  const std::int64_t n = in.shape()[axis], inner = in.shape().size(axis + 1, in.rank());
  call.declare_output(0, in.dtype(), in.shape());
  const DType wide = wide_real(in.dtype());
  const Tensor x = converted(in, wide), y(wide, in.shape());
  const std::int64_t lines = in.size() == 0 ? 0 : in.size() / n;
  visit_wide_reals(wide, [&]<class T>() {
    each_row(call, lines, n, [&](std::int64_t line) {
      const std::int64_t at = line / inner * n * inner + line % inner;
      const T* const from = as<T>(x).data() + at;
      T* const to = as<T>(y).data() + at;
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto value = static_cast<double>(from[i * inner]);
        sum += p == 1 ? std::fabs(value) : value * value;
      }
      const double length = p == 1 ? sum : std::sqrt(sum);
      for (std::int64_t i = 0; i < n; ++i)
        to[i * inner] =
            length == 0 ? T(0) : static_cast<T>(static_cast<double>(from[i * inner]) / length);
    });
  });
  call.set_output(0, converted(y, in.dtype()));
}

// LRN across channels.
void lrn(OpCall& call) {
  const Tensor& in = call.input(0);
  need_channels(in);
  const std::int64_t size = call.attributes().integer("size"), channels = in.shape()[1];
  require(size > 0, "size must be above 0");
  const double alpha = static_cast<double>(call.attributes().real("alpha", 1e-4f));
  const double beta = static_cast<double>(call.attributes().real("beta", 0.75f));
  const double bias = static_cast<double>(call.attributes().real("bias", 1));
  const std::int64_t pixels = in.shape().size(2, in.rank());
  const std::int64_t before = (size - 1) / 2, after = size - 1 - before;
  call.declare_output(0, in.dtype(), in.shape());
  const DType wide = wide_real(in.dtype());
  const Tensor x = converted(in, wide), y(wide, in.shape());
  if (in.size() > 0)
    visit_wide_reals(wide, [&]<class T>() {
      each_row(call, in.shape()[0] * channels, pixels, [&](std::int64_t row) {
        const std::int64_t c = row % channels;
        const T* const image = as<T>(x).data() + (row - c) * pixels;
        const std::int64_t first = std::max<std::int64_t>(0, c - before);
        const std::int64_t last = c + std::min(after, channels - 1 - c);
        for (std::int64_t i = 0; i < pixels; ++i) {
          double sum = 0;
          for (std::int64_t k = first; k <= last; ++k) {
            const auto value = static_cast<double>(image[k * pixels + i]);
            sum += value * value;
          }
          as<T>(y)[static_cast<std::size_t>(row * pixels + i)] =
              static_cast<T>(static_cast<double>(image[c * pixels + i]) /
                             std::pow(bias + alpha / static_cast<double>(size) * sum, beta));
        }
      });
    });
  call.set_output(0, converted(y, in.dtype()));
}

constexpr Op kNormalizeOps[] = {
    {"BatchNormalization", 1, kReals, batch_norm},
    {"GroupNormalization", 18, kReals, group_norm},
    {"InstanceNormalization", 1, kReals, instance_norm},
    {"LRN", 1, kReals, lrn},
    {"LayerNormalization", 17, kReals, layer_norm},
    {"LpNormalization", 1, kReals, lp_norm},
    {"MeanVarianceNormalization", 9, kReals, mean_variance},
    {"RMSNormalization", 23, kReals, rms_norm},
};

}  // namespace

std::span<const Op> normalize_ops() { return kNormalizeOps; }

}  // namespace sluice::engine
