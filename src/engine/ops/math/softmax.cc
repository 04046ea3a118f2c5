// Softmax, LogSoftmax and Hardmax.
#include <cmath>

#include "engine/ops/axes.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// A tensor as outer x n x inner, where n is the axis.
struct AxisSplit {
  std::int64_t outer, n, inner;

  AxisSplit(const Shape& shape, int axis)
      : outer(shape.size(0, axis)), n(shape[axis]), inner(shape.size(axis + 1, shape.rank())) {}

  // Before opset 13 the axes from `axis` on were flattened.
  static AxisSplit of(OpCall& call) {
    const Tensor& in = call.input(0);
    if (call.version() >= 13)
      return AxisSplit(in.shape(), resolve_axis(call.attributes().integer("axis", -1), in.rank()));
    std::int64_t axis = call.attributes().integer("axis", 1);
    if (axis < 0) axis += in.rank();
    require(axis >= 0 && axis <= in.rank(), "axis " + std::to_string(axis) + " is outside");
    const auto from = static_cast<int>(axis);
    AxisSplit all({1}, 0);
    all.outer = in.shape().size(0, from);
    all.n = in.shape().size(from, in.rank());
    return all;
  }
};

// Output 0 from input 0: f(x, y, n, step) for each line, on all cores.
template <class F>
void each_line(OpCall& call, F&& f) {
  const Tensor& in = call.input(0);
  const AxisSplit split = AxisSplit::of(call);
  call.declare_output(0, in.dtype(), in.shape());
  const Tensor wide = converted(in, wide_real(in.dtype()));
  const Tensor out(wide.dtype(), in.shape());
  if (in.size() > 0)
    visit_wide_reals(wide.dtype(), [&]<class T>() {
      const auto grain = static_cast<std::size_t>(std::max<std::int64_t>(1, (1 << 13) / split.n));
      call.workers.each(static_cast<std::size_t>(split.outer * split.inner), grain,
                        [&](std::size_t begin, std::size_t end) {
                          for (std::size_t i = begin; i < end; ++i) {
                            const auto line = static_cast<std::int64_t>(i);
                            const std::int64_t at =
                                line / split.inner * split.n * split.inner + line % split.inner;
                            f(as<T>(wide).data() + at, as<T>(out).data() + at, split.n,
                              split.inner);
                          }
                        });
    });
  call.set_output(0, converted(out, in.dtype()));
}

template <class T>
T peak(const T* x, std::int64_t n, std::int64_t step) {
  T max = x[0];
  for (std::int64_t i = 1; i < n; ++i) max = std::max(max, x[i * step]);
  return max;
}

void softmax(OpCall& call) {
  each_line(call, []<class T>(const T* x, T* y, std::int64_t n, std::int64_t step) {
    const T max = peak(x, n, step);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      y[i * step] = std::exp(x[i * step] - max);
      sum += static_cast<double>(y[i * step]);
    }
    const T scale = static_cast<T>(1 / sum);
    for (std::int64_t i = 0; i < n; ++i) y[i * step] *= scale;
  });
}

void log_softmax(OpCall& call) {
  each_line(call, []<class T>(const T* x, T* y, std::int64_t n, std::int64_t step) {
    const T max = peak(x, n, step);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::exp(x[i * step] - max));
    const T off = static_cast<T>(std::log(sum));
    for (std::int64_t i = 0; i < n; ++i) y[i * step] = x[i * step] - max - off;
  });
}

void hardmax(OpCall& call) {
  each_line(call, []<class T>(const T* x, T* y, std::int64_t n, std::int64_t step) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i)
      if (x[i * step] > x[best * step]) best = i;
    for (std::int64_t i = 0; i < n; ++i) y[i * step] = i == best ? T(1) : T(0);
  });
}

constexpr Op kSoftmaxOps[] = {
    {"Hardmax", 1, kReals, hardmax},
    {"LogSoftmax", 1, kReals, log_softmax},
    {"Softmax", 1, kReals, softmax},
};

}  // namespace

std::span<const Op> softmax_ops() { return kSoftmaxOps; }

}  // namespace sluice::engine
