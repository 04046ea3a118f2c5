// Pooling: max, average, Lp, global; and MaxUnpool.
#include <cmath>
#include <limits>

#include "engine/ops/families.h"
#include "engine/ops/wide.h"
#include "engine/ops/window.h"

namespace sluice::engine {
namespace {

// The input window of one output.
struct Seen {
  std::array<std::int64_t, Window::kAxes> start{}, first{}, last{};

  Seen(const Window& window, std::int64_t out) {
    for (std::size_t i = Window::kAxes; i-- > 0;) {
      const Window::Axis& axis = window.axis[i];
      start[i] = axis.start(out % axis.out);
      out /= axis.out;
      first[i] = axis.first(start[i]);
      last[i] = axis.last(start[i]);
    }
  }

  std::int64_t count() const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < Window::kAxes; ++i)
      product *= std::max<std::int64_t>(0, last[i] - first[i]);
    return product;
  }

  // Calls body with the offset of each element in its channel.
  template <class Body>
  void each(const Window& window, Body&& body) const {
    const auto& [deep, high, wide] = window.axis;
    for (std::int64_t a = first[0]; a < last[0]; ++a)
      for (std::int64_t b = first[1]; b < last[1]; ++b) {
        const std::int64_t row =
            ((start[0] + a * deep.dilation) * high.in + start[1] + b * high.dilation) * wide.in;
        for (std::int64_t c = first[2]; c < last[2]; ++c) body(row + start[2] + c * wide.dilation);
      }
  }
};

// The number of window positions on the input or its padding.
std::int64_t padded_count(const Window& window, const Seen& seen) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < Window::kAxes; ++i) {
    Window::Axis axis = window.axis[i];
    axis.in += axis.after;
    product *= axis.last(seen.start[i]);
  }
  return product;
}

Window pooling_window(OpCall& call) {
  const bool ceil = call.attributes().flag("ceil_mode");
  return read_window(call.attributes(), call.input(0).shape(), Tensor(),
                     ceil ? LastWindow::kept_where_it_begins_inside : LastWindow::dropped);
}

// Calls body(channel, output offset, window) on all cores.
template <class Body>
void each_output(OpCall& call, const Window& window, const Body& body) {
  const Shape& shape = call.input(0).shape();
  const std::int64_t outs = window.outs();
  call.workers.each(static_cast<std::size_t>(shape[0] * shape[1]), 1,
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t channel = begin; channel < end; ++channel)
                        for (std::int64_t at = 0; at < outs; ++at)
                          body(static_cast<std::int64_t>(channel), at, Seen(window, at));
                    });
}

Shape output_of(const OpCall& call, const Window& window) {
  return window.output(call.input(0).shape()[0], call.input(0).shape()[1]);
}

// The widened input, after declaring the output.
Tensor widened_for(OpCall& call, const Window& window) {
  call.declare_output(0, call.input(0).dtype(), output_of(call, window));
  return widened(call.input(0));
}

void average_pool(OpCall& call) {
  const Window window = pooling_window(call);
  const bool padding_counts = call.attributes().flag("count_include_pad");
  const Tensor x = widened_for(call, window);
  const Tensor y(x.dtype(), output_of(call, window));
  visit_wide(x.dtype(), [&]<class T>() {
    const T* const in = as<T>(x).data();
    T* const out = as<T>(y).data();
    each_output(call, window, [&](std::int64_t channel, std::int64_t at, const Seen& seen) {
      const T* const from = in + channel * window.ins();
      double sum = 0;
      seen.each(window, [&](std::int64_t i) { sum += static_cast<double>(from[i]); });
      const std::int64_t count = padding_counts ? padded_count(window, seen) : seen.count();
      out[channel * window.outs() + at] =
          static_cast<T>(count == 0 ? 0 : sum / static_cast<double>(count));
    });
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

// Converts an offset to column-major order.
std::int64_t column_major(const Window& window, std::int64_t offset) {
  const auto& [deep, high, wide] = window.axis;
  const std::int64_t c = offset % wide.in, b = offset / wide.in % high.in,
                     a = offset / wide.in / high.in;
  return a + deep.in * (b + high.in * c);
}

template <class T>
void max_pool_windows(OpCall& call, const Window& window, const Tensor& x, const Tensor& y,
                      const Tensor& indices) {
  const bool columns = call.attributes().integer("storage_order", 0) != 0;
  each_output(call, window, [&](std::int64_t channel, std::int64_t at, const Seen& seen) {
    const T* const from = as<T>(x).data() + channel * window.ins();
    T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                  : std::numeric_limits<T>::lowest();
    std::int64_t index = -1;
    seen.each(window, [&](std::int64_t i) {
      if (index >= 0 && !(from[i] > best) && from[i] == from[i]) return;  // NaN propagates
      best = from[i];
      index = i;
    });
    const auto to = static_cast<std::size_t>(channel * window.outs() + at);
    as<T>(y)[to] = best;
    if (!indices) return;
    if (columns && index >= 0) index = column_major(window, index);
    as<std::int64_t>(indices)[to] = channel * window.ins() + std::max<std::int64_t>(0, index);
  });
}

void max_pool(OpCall& call) {
  const DType type = call.input(0).dtype();
  const bool bytes = type == DType::i8 || type == DType::u8;
  const Window window = pooling_window(call);
  const Shape shape = output_of(call, window);
  call.declare_output(0, type, shape);
  const Tensor x = bytes ? call.input(0) : widened(call.input(0));
  const Tensor y(x.dtype(), shape);
  const Tensor indices = call.wants(1) ? call.output(1, DType::i64, shape) : Tensor();
  visit_types<float, double, std::int8_t, std::uint8_t>(
      x.dtype(), [&]<class T>() { max_pool_windows<T>(call, window, x, y, indices); });
  call.set_output(0, bytes ? y : narrowed(y, type));
}

// p was a float in the first version.
double norm_of(OpCall& call) {
  const double p = call.version() < 2 ? static_cast<double>(call.attributes().real("p", 2))
                                      : static_cast<double>(call.attributes().integer("p", 2));
  require(p > 0, "p must be above 0");
  return p;
}

void lp_pool(OpCall& call) {
  const Window window = pooling_window(call);
  const double p = norm_of(call);
  const Tensor x = widened_for(call, window);
  const Tensor y(x.dtype(), output_of(call, window));
  visit_wide(x.dtype(), [&]<class T>() {
    const T* const in = as<T>(x).data();
    T* const out = as<T>(y).data();
    each_output(call, window, [&](std::int64_t channel, std::int64_t at, const Seen& seen) {
      const T* const from = in + channel * window.ins();
      double sum = 0;
      seen.each(window, [&](std::int64_t i) {
        sum += std::pow(std::abs(static_cast<double>(from[i])), p);
      });
      out[channel * window.outs() + at] = static_cast<T>(std::pow(sum, 1 / p));
    });
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

// Global pooling: reduce(values of a channel) gives one value.
template <class Reduce>
void global_pool(OpCall& call, const Reduce& reduce) {
  Shape shape = call.input(0).shape();
  require(shape.rank() >= 2, "an input of shape " + to_string(shape) + " has no channels");
  for (int i = 2; i < shape.rank(); ++i) shape[i] = 1;
  call.declare_output(0, call.input(0).dtype(), shape);
  const Tensor x = widened(call.input(0));
  const auto size = static_cast<std::size_t>(x.shape().size(2, x.rank()));
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() {
    call.workers.each(static_cast<std::size_t>(y.size()), 1,
                      [&](std::size_t begin, std::size_t end) {
                        for (std::size_t i = begin; i < end; ++i)
                          as<T>(y)[i] = static_cast<T>(reduce(as<T>(x).subspan(i * size, size)));
                      });
  });
  call.set_output(0, narrowed(y, call.input(0).dtype()));
}

void global_average_pool(OpCall& call) {
  global_pool(call, [](auto values) {
    double sum = 0;
    for (const auto value : values) sum += static_cast<double>(value);
    return sum / static_cast<double>(values.size());
  });
}

void global_max_pool(OpCall& call) {
  global_pool(call, [](auto values) {
    double max = -std::numeric_limits<double>::infinity();
    for (const auto value : values)  // NaN propagates
      if (static_cast<double>(value) > max || value != value) max = static_cast<double>(value);
    return max;
  });
}

void global_lp_pool(OpCall& call) {
  global_pool(call, [p = norm_of(call)](auto values) {
    double sum = 0;
    for (const auto value : values) sum += std::pow(std::abs(static_cast<double>(value)), p);
    return std::pow(sum, 1 / p);
  });
}

// The shape of the pooled image by the window, not by output_shape.
Shape unpooled(OpCall& call, const Shape& input) {
  const Window window = read_window(call.attributes(), input, Tensor());
  Shape shape{input[0], input[1]};
  for (const Window::Axis& axis : window.axes())
    shape.push_back(std::max<std::int64_t>(
        0, (axis.in - 1) * axis.stride + axis.kernel - axis.before - axis.after));
  return shape;
}

// Indices refer to the pooled image; a larger output is padded with zeros.
void max_unpool(OpCall& call) {
  const Tensor &x = call.input(0), &indices = call.input(1);
  const Shape pooled = unpooled(call, x.shape());
  Shape shape = pooled;
  if (call.has(2)) shape = Shape(call.integers(2));
  require(indices.dtype() == DType::i64 && indices.shape() == x.shape(),
          "an index for each element is needed");
  require(shape.rank() == x.rank(), "output_shape has another number of axes");
  for (int i = 0; i < shape.rank(); ++i)
    require(shape[i] >= pooled[i], "an output of " + to_string(shape) +
                                       " is smaller than what was pooled, " + to_string(pooled));
  const Tensor y = call.output(0, x.dtype(), shape);
  const std::int64_t max = checked_size(pooled.dims());
  visit_widths(x.dtype(), [&]<class T>() {
    std::fill(as<T>(y).begin(), as<T>(y).end(), T{});
    for (std::size_t i = 0; i < as<T>(x).size(); ++i) {
      std::int64_t index = as<std::int64_t>(indices)[i], to = 0, step = 1;
      require(index >= 0 && index < max,
              "index " + std::to_string(index) + " is outside of " + to_string(pooled));
      for (int a = shape.rank() - 1; a >= 0; --a) {
        to += index % pooled[a] * step;
        index /= pooled[a];
        step *= shape[a];
      }
      as<T>(y)[static_cast<std::size_t>(to)] = as<T>(x)[i];
    }
  });
}

constexpr Types kPooled = kReals | Types{DType::i8, DType::u8};

constexpr Op kPoolOps[] = {
    {"AveragePool", 1, kReals, average_pool},
    {"MaxPool", 1, kReals, max_pool},
    {"MaxPool", 12, kPooled, max_pool},
    {"LpPool", 1, kReals, lp_pool},
    {"GlobalAveragePool", 1, kReals, global_average_pool},
    {"GlobalMaxPool", 1, kReals, global_max_pool},
    {"GlobalLpPool", 1, kReals, global_lp_pool},
    {"MaxUnpool", 9, kReals, max_unpool},
};

}  // namespace

std::span<const Op> pool_ops() { return kPoolOps; }

}  // namespace sluice::engine
