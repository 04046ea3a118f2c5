// Reductions, ArgMax and ArgMin.
#include <cmath>
#include <limits>

#include "engine/ops/axes.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// Merges adjacent axes that are all kept or all reduced.
struct Groups {
  struct Group {
    std::int64_t size, stride;
  };
  std::vector<Group> kept, reduced;  // the outermost first
  std::int64_t results = 1, each = 1;

  Groups(const Shape& shape, const std::vector<bool>& reduces) {
    std::int64_t stride = 1;
    int last = -1;  // the list of the previous axis
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const bool reduce = reduces[static_cast<std::size_t>(axis)];
      std::vector<Group>& list = reduce ? reduced : kept;
      (reduce ? each : results) *= shape[axis];
      if (shape[axis] != 1) {
        if (last == (reduce ? 1 : 0))
          list.front().size *= shape[axis];
        else
          list.insert(list.begin(), {shape[axis], stride});
        last = reduce ? 1 : 0;
      }
      stride *= shape[axis];
    }
  }

  // The memory offset of element `index` in row-major order of the list.
  static std::int64_t offset(const std::vector<Group>& list, std::int64_t index) {
    std::int64_t at = 0;
    for (auto group = list.rbegin(); group != list.rend(); ++group) {
      at += index % group->size * group->stride;
      index /= group->size;
    }
    return at;
  }
};

// Float sums accumulate in double; integers wrap around.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <class T>
double real_of(Sum<T> sum) {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return static_cast<double>(static_cast<std::int64_t>(sum));
  else
    return static_cast<double>(sum);
}

template <class T>
T from_real(double value) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(to_integer(value));
}

template <class T>
Sum<T> magnitude(T x) {
  if constexpr (std::is_signed_v<T>)
    return x < 0 ? Sum<T>(0) - static_cast<Sum<T>>(x) : static_cast<Sum<T>>(x);
  else
    return static_cast<Sum<T>>(x);
}

template <class T>
struct SumOf {
  Sum<T> sum = 0;
  void add(T x) { sum += static_cast<Sum<T>>(x); }
  T result(std::int64_t) const { return static_cast<T>(sum); }
};
template <class T>
struct MeanOf : SumOf<T> {
  T result(std::int64_t n) const {
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(this->sum / static_cast<double>(n));
    else
      return n == 0 ? T(0) : static_cast<T>(static_cast<T>(this->sum) / static_cast<T>(n));
  }
};
template <class T>
struct LogSumOf : SumOf<T> {
  T result(std::int64_t) const { return from_real<T>(std::log(real_of<T>(this->sum))); }
};
template <class T>
struct L1Of : SumOf<T> {
  void add(T x) { this->sum += magnitude(x); }
};
template <class T>
struct SumSquareOf : SumOf<T> {
  void add(T x) { this->sum += static_cast<Sum<T>>(x) * static_cast<Sum<T>>(x); }
};
template <class T>
struct L2Of : SumSquareOf<T> {
  T result(std::int64_t) const { return from_real<T>(std::sqrt(real_of<T>(this->sum))); }
};
template <class T>
struct ProductOf {
  Sum<T> product = 1;
  void add(T x) { product *= static_cast<Sum<T>>(x); }
  T result(std::int64_t) const { return static_cast<T>(product); }
};
// NaN wins.
template <class T>
struct MostOf {
  T max = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                               : std::numeric_limits<T>::lowest();
  void add(T x) {
    if (x > max || x != x) max = x;
  }
  T result(std::int64_t) const { return max; }
};
template <class T>
struct LeastOf {
  T min = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                               : std::numeric_limits<T>::max();
  void add(T x) {
    if (x < min || x != x) min = x;
  }
  T result(std::int64_t) const { return min; }
};
// Relative to the running maximum, to avoid overflow.
template <class T>
struct LogSumExpOf {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  void add(T value) {
    const auto x = static_cast<double>(value);
    if (x > max) {
      sum = sum * std::exp(max - x) + 1;
      max = x;
    } else {
      sum += x == max ? 1 : std::exp(x - max);
    }
  }
  T result(std::int64_t) const { return from_real<T>(max + std::log(sum)); }
};

// Computes adjacent results [begin, end) together, because their inputs are adjacent too.
template <class T, template <class> class Reducer>
void reduce_some(const Groups& groups, const T* x, T* y, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kTogether = 32;
  const std::int64_t stride = groups.kept.empty() ? 1 : groups.kept.back().stride;
  const std::int64_t row = groups.kept.empty() ? 1 : groups.kept.back().size;
  const Groups::Group inner = groups.reduced.empty() ? Groups::Group{1, 1} : groups.reduced.back();
  while (begin < end) {
    const std::int64_t count = std::min({kTogether, end - begin, row - begin % row});
    const T* const from = x + Groups::offset(groups.kept, begin);
    Reducer<T> all[kTogether];
    for (std::int64_t outer = 0; outer < groups.each; outer += inner.size) {
      const T* at = from + Groups::offset(groups.reduced, outer);
      for (std::int64_t i = 0; i < inner.size; ++i, at += inner.stride)
        for (std::int64_t k = 0; k < count; ++k) all[k].add(at[k * stride]);
    }
    for (std::int64_t k = 0; k < count; ++k) y[begin + k] = all[k].result(groups.each);
    begin += count;
  }
}

template <template <class> class Reducer>
Tensor reduced(OpCall& call, const Tensor& in, const Groups& groups, const Shape& shape) {
  const Tensor wide = converted(in, wide_number(in.dtype()));
  const Tensor out(wide.dtype(), shape);
  visit_wide_numbers(wide.dtype(), [&]<class T>() {
    const auto grain = static_cast<std::size_t>(
        std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, groups.each)));
    call.workers.each(
        static_cast<std::size_t>(groups.results), grain, [&](std::size_t begin, std::size_t end) {
          reduce_some<T, Reducer>(groups, as<T>(wide).data(), as<T>(out).data(),
                                  static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end));
        });
  });
  return converted(out, in.dtype());
}

// The axes are an attribute in older opsets and an input in newer ones; none means all axes unless
// noop_with_empty_axes is set.
std::vector<bool> axes_to_reduce(OpCall& call, int rank) {
  const auto named = list_of(call, 1, "axes").value_or(std::vector<std::int64_t>{});
  const bool all = named.empty() && !call.attributes().flag("noop_with_empty_axes");
  std::vector<bool> reduces(static_cast<std::size_t>(rank), all);
  for (const int axis : resolve_axes(named, rank)) reduces[static_cast<std::size_t>(axis)] = true;
  return reduces;
}

Shape shape_without(const Shape& shape, const std::vector<bool>& reduces, bool keep) {
  Shape left;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!reduces[static_cast<std::size_t>(axis)])
      left.push_back(shape[axis]);
    else if (keep)
      left.push_back(1);
  }
  return left;
}

template <template <class> class Reducer>
void reduce(OpCall& call) {
  const Tensor& in = call.input(0);
  const std::vector<bool> reduces = axes_to_reduce(call, in.rank());
  const Shape shape = shape_without(in.shape(), reduces, call.attributes().flag("keepdims", true));
  call.declare_output(0, in.dtype(), shape);
  call.set_output(0, reduced<Reducer>(call, in, Groups(in.shape(), reduces), shape));
}

// The maximum of an empty set is the lowest value of the element type, which may be narrower than
// the compute type.
template <template <class> class Reducer, bool kMin>
void extreme(OpCall& call) {
  const Tensor& in = call.input(0);
  reduce<Reducer>(call);
  if (in.size() != 0 || is_float(in.dtype())) return;
  const std::vector<bool> reduces = axes_to_reduce(call, in.rank());
  const Tensor out = call.output(
      0, in.dtype(), shape_without(in.shape(), reduces, call.attributes().flag("keepdims", true)));
  visit_types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
              std::uint32_t, std::uint64_t, bool>(in.dtype(), [&]<class T>() {
    using Limits = std::numeric_limits<T>;
    for (T& value : as<T>(out)) value = kMin ? Limits::lowest() : Limits::max();
  });
}

// ArgMax or ArgMin along an axis; the first or last index among equals.
template <class T, bool kMax>
void find_extremes(const Tensor& in, int axis, bool last, const Tensor& out) {
  const Shape& shape = in.shape();
  const std::int64_t outer = shape.size(0, axis), n = shape[axis];
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  const T* x = as<T>(in).data();
  std::int64_t* y = as<std::int64_t>(out).data();
  for (std::int64_t o = 0; o < outer; ++o, x += n * inner)
    for (std::int64_t i = 0; i < inner; ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < n; ++k) {
        const T value = x[k * inner + i], other = x[best * inner + i];
        if ((kMax ? value > other : value < other) || (last && value == other)) best = k;
      }
      *y++ = best;
    }
}

template <bool kMax>
void arg_extreme(OpCall& call) {
  const Tensor in = converted(call.input(0), wide_number(call.input(0).dtype()));
  const int axis = resolve_axis(call.attributes().integer("axis", 0), in.rank());
  require(in.shape()[axis] > 0, "axis " + std::to_string(axis) + " has no elements");
  Shape shape = in.shape();
  if (call.attributes().flag("keepdims", true))
    shape[axis] = 1;
  else
    shape.erase(axis);
  const Tensor out = call.output(0, DType::i64, shape);
  const bool last = call.attributes().flag("select_last_index");
  visit_wide_numbers(in.dtype(), [&]<class T>() { find_extremes<T, kMax>(in, axis, last, out); });
}

constexpr Types kExtremes = kNumbers | Types{DType::boolean};

constexpr Op kReduceOps[] = {
    {"ArgMax", 1, kNumbers, arg_extreme<true>},
    {"ArgMin", 1, kNumbers, arg_extreme<false>},
    {"ReduceL1", 1, kNumbers, reduce<L1Of>},
    {"ReduceL2", 1, kNumbers, reduce<L2Of>},
    {"ReduceLogSum", 1, kNumbers, reduce<LogSumOf>},
    {"ReduceLogSumExp", 1, kNumbers, reduce<LogSumExpOf>},
    {"ReduceMax", 1, kExtremes, extreme<MostOf, true>},
    {"ReduceMean", 1, kNumbers, reduce<MeanOf>},
    {"ReduceMin", 1, kExtremes, extreme<LeastOf, false>},
    {"ReduceProd", 1, kNumbers, reduce<ProductOf>},
    {"ReduceSum", 1, kNumbers, reduce<SumOf>},
    {"ReduceSumSquare", 1, kNumbers, reduce<SumSquareOf>},
};

}  // namespace

std::span<const Op> reduce_ops() { return kReduceOps; }

}  // namespace sluice::engine
