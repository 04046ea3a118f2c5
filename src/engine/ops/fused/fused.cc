// Reference implementations of the fused operators, in double, one output after the other.
// fused_ops.h documents each operator.
#include "engine/ops/fused/fused.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/graph/fused_ops.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"
#include "engine/ops/math/quantize.h"
#include "engine/ops/window.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {
namespace {

constexpr std::int64_t kMax = 1 << 28;  // of a size in an attribute

template <class Body>
void each(OpCall& call, std::int64_t count, const Body& body) {
  call.workers.each(static_cast<std::size_t>(count), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(static_cast<std::int64_t>(i));
  });
}

void linear(OpCall& call) {
  Tensor x = fused_input(call, 0), bias = fused_input(call, 2), residual = fused_input(call, 3);
  require(call.has(1), "weights are missing");
  Tensor w = fused_input(call, 1);
  const int last = x.rank() - 1;
  require(last >= 0 && w.rank() == 2 && x.shape()[last] == w.shape()[0],
          "weights of shape " + to_string(w.shape()) + " for an input of " + to_string(x.shape()));
  const std::int64_t k = w.shape()[0], n = w.shape()[1], rows = x.shape().size(0, last);
  Shape shape = x.shape();
  shape[last] = n;
  require_shape(bias, "bias", {n});
  require_shape(residual, "residual", shape);
  const ActivationParams activation = activation_params_of(call.attributes());
  const DoubleResult result(call, shape);
  const Tensor& y = result.y;
  widen(x, w, bias, residual);
  kernels::matmul<double>(call.workers, rows, n, k, {doubles(x), k, 1}, {doubles(w), n, 1},
                          doubles(y), n);
  each(call, rows, [&](std::int64_t row) {
    for (std::int64_t i = 0; i < n; ++i) {
      double& value = doubles(y)[row * n + i];
      value = activation(value + (bias ? doubles(bias)[i] : 0));
      if (residual) value += doubles(residual)[row * n + i];
    }
  });
  result.store();
}

// Output 1: output 0, rounded to its type and quantized.
void set_quantized_output(OpCall& call, const Tensor& made) {
  const QuantParams params = quant_params_of(call.attributes());
  const Tensor scaled = converted(made, DType::f64), zero_points(DType::f64, made.shape());
  for (double& x : scaled.values<double>())
    x = static_cast<double>(static_cast<float>(x) / params.to_scale);
  std::fill_n(doubles(zero_points), zero_points.size(), static_cast<double>(params.to_zero));
  call.set_output(1, quantized(scaled, zero_points, params.to, true));
}

void norm(OpCall& call) {
  Tensor x = fused_input(call, 0), residual = fused_input(call, 1), bias = fused_input(call, 3);
  require(x.rank() > 0 && call.has(2), "an input with axes and a scale are needed");
  Tensor scale = fused_input(call, 2);
  const std::int64_t n = x.shape()[x.rank() - 1];
  require(n > 0, "rows without elements have no mean");
  require_shape(residual, "residual", x.shape());
  require_shape(scale, "scale", {n});
  require_shape(bias, "bias", {n});
  const DType quantized_type = quant_params_of(call.attributes()).to;
  require(!call.wants(1) || quantized_type == DType::u8 || quantized_type == DType::i8,
          "the quantized output must be u8 or i8");
  call.declare_output(1, quantized_type, x.shape());
  const DoubleResult result(call, x.shape());
  const Tensor& y = result.y;
  widen(x, residual, scale, bias);
  const double epsilon = static_cast<double>(call.attributes().real("epsilon", 1e-5f));
  each(call, x.size() / n, [&](std::int64_t row) {
    double* const to = doubles(y) + row * n;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < n; ++i)
      sum += to[i] = doubles(x)[row * n + i] + (residual ? doubles(residual)[row * n + i] : 0);
    const double mean = sum / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) squares += (to[i] - mean) * (to[i] - mean);
    const double by = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (std::int64_t i = 0; i < n; ++i)
      to[i] = (to[i] - mean) * by * doubles(scale)[i] + (bias ? doubles(bias)[i] : 0);
  });
  result.store();
  if (call.wants(1)) set_quantized_output(call, result.out);
}

std::vector<std::int64_t> sizes(OpCall& call, std::string_view name, std::size_t count,
                                std::int64_t default_value, std::int64_t min) {
  std::vector<std::int64_t> all =
      call.attributes().integers(name, std::vector<std::int64_t>(count, default_value));
  require(all.size() == count,
          std::string(name) + " must be " + std::to_string(count) + " numbers");
  for (const std::int64_t size : all)
    require(size >= min && size <= kMax,
            std::string(name) + " has a value of " + std::to_string(size));
  return all;
}

// The window over height and width of images [batch, height, width, channels].
std::array<Window::Axis, 2> window(OpCall& call, const Shape& in, std::int64_t rows,
                                   std::int64_t columns) {
  const auto strides = sizes(call, "strides", 2, 1, 1),
             dilations = sizes(call, "dilations", 2, 1, 1);
  const auto pads = sizes(call, "pads", 4, 0, 0);
  const std::int64_t kernel[] = {rows, columns};
  for (const std::int64_t size : {in[1], in[2], rows, columns})
    require(size <= kMax, "a side of " + std::to_string(size) + " elements");
  std::array<Window::Axis, 2> axes{};
  for (std::size_t i = 0; i < 2; ++i) {
    Window::Axis& axis = axes[i];
    axis = {in[static_cast<int>(i) + 1], kernel[i], strides[i], dilations[i], pads[i], pads[i + 2]};
    const std::int64_t span = axis.in + axis.before + axis.after - axis.extent();
    axis.out = span < 0 ? 0 : span / axis.stride + 1;
  }
  return axes;
}

// Calls body(kernel position, input pixel) for the window of output (row, column).
template <class Body>
void each_window_pixel(const std::array<Window::Axis, 2>& axes, std::int64_t row,
                       std::int64_t column, Body&& body) {
  const auto& [high, broad] = axes;
  const std::int64_t top = high.start(row), left = broad.start(column);
  for (std::int64_t r = high.first(top); r < high.last(top); ++r)
    for (std::int64_t c = broad.first(left); c < broad.last(left); ++c)
      body(r * broad.kernel + c, (top + r * high.dilation) * broad.in + left + c * broad.dilation);
}

void conv(OpCall& call) {
  Tensor x = fused_input(call, 0), bias = fused_input(call, 2), residual = fused_input(call, 3);
  require(call.has(1), "weights are missing");
  Tensor w = fused_input(call, 1);
  const std::int64_t group = call.attributes().integer("group", 1);
  require(x.rank() == 4 && w.rank() == 4 && group > 0 && w.shape()[0] % group == 0 &&
              w.shape()[1] <= kMax && group <= kMax && w.shape()[1] * group == x.shape()[3],
          "weights of shape " + to_string(w.shape()) + " for an input of " + to_string(x.shape()) +
              " and " + std::to_string(group) + " groups");
  const auto axes = window(call, x.shape(), w.shape()[2], w.shape()[3]);
  const std::int64_t outs = w.shape()[0], ins = w.shape()[1], taps = w.shape()[2] * w.shape()[3];
  const Shape shape{x.shape()[0], axes[0].out, axes[1].out, outs};
  require_shape(bias, "bias", {outs});
  require_shape(residual, "residual", shape);
  const ActivationParams activation = activation_params_of(call.attributes());
  const DoubleResult result(call, shape);
  const Tensor& y = result.y;
  widen(x, w, bias, residual);
  const std::int64_t pixels = axes[0].in * axes[1].in, each_out = outs / group;
  each(call, shape.size(0, 3), [&](std::int64_t at) {
    const std::int64_t column = at % shape[2], row = at / shape[2] % shape[1];
    const double* const image = doubles(x) + at / shape[2] / shape[1] * pixels * ins * group;
    for (std::int64_t o = 0; o < outs; ++o) {
      double sum = bias ? doubles(bias)[o] : 0;
      each_window_pixel(axes, row, column, [&](std::int64_t tap, std::int64_t pixel) {
        const double* const from = image + pixel * ins * group + o / each_out * ins;
        for (std::int64_t i = 0; i < ins; ++i)
          sum += from[i] * doubles(w)[(o * ins + i) * taps + tap];
      });
      if (residual) sum += doubles(residual)[at * outs + o];
      doubles(y)[at * outs + o] = activation(sum);
    }
  });
  result.store();
}

// Folds body(accumulator, value) over each window from `start`; then applies end(accumulator,
// count).
template <class Body, class End>
void pool(OpCall& call, double start, Body&& body, End&& end) {
  Tensor x = fused_input(call, 0);
  require(x.rank() == 4, "an input of shape " + to_string(x.shape()));
  const auto kernel = sizes(call, "kernel", 2, 0, 1);
  const auto axes = window(call, x.shape(), kernel[0], kernel[1]);
  const std::int64_t channels = x.shape()[3];
  const Shape shape{x.shape()[0], axes[0].out, axes[1].out, channels};
  const DoubleResult result(call, shape);
  const Tensor& y = result.y;
  widen(x);
  each(call, shape.size(0, 3), [&](std::int64_t at) {
    const std::int64_t column = at % shape[2], row = at / shape[2] % shape[1];
    const double* const image =
        doubles(x) + at / shape[2] / shape[1] * axes[0].in * axes[1].in * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      double accumulator = start;
      std::int64_t seen = 0;
      each_window_pixel(axes, row, column, [&](std::int64_t, std::int64_t pixel) {
        accumulator = body(accumulator, image[pixel * channels + c]);
        ++seen;
      });
      doubles(y)[at * channels + c] = end(accumulator, seen);
    }
  });
  result.store();
}

double lowest_of(DType type) {
  if (type == DType::u8) return 0;
  return type == DType::i8 ? -128 : -std::numeric_limits<double>::infinity();
}

void max_pool(OpCall& call) {
  pool(
      call, lowest_of(fused_input(call, 0).dtype()),
      [](double a, double b) { return b > a || b != b ? b : a; },
      [](double max, std::int64_t) { return max; });
}

void average_pool(OpCall& call) {
  const bool all = call.attributes().flag("count_include_pad");
  const auto kernel = sizes(call, "kernel", 2, 0, 1);
  const double area = static_cast<double>(kernel[0]) * static_cast<double>(kernel[1]);
  pool(
      call, 0, [](double a, double b) { return a + b; },
      [=](double sum, std::int64_t seen) {
        return sum / (all ? area : static_cast<double>(seen));
      });
}

constexpr Op kFusedOps[] = {
    {"AveragePool", 1, kReals, average_pool, "sluice"},
    {"Conv", 1, kReals, conv, "sluice"},
    {"Linear", 1, kReals, linear, "sluice"},
    {"MaxPool", 1, kReals | Types{DType::i8, DType::u8}, max_pool, "sluice"},
    {"Norm", 1, kReals, norm, "sluice"},
};

}  // namespace

std::span<const Op> fused_ops() { return kFusedOps; }

}  // namespace sluice::engine
