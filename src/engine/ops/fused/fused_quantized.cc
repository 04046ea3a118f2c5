// Reference implementations of the quantized Linear and Conv: dequantized, in double. fused_ops.h
// documents each operator.
#include "engine/graph/fused_ops.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"
#include "engine/ops/fused/fused.h"
#include "engine/ops/math/quantize.h"
#include "engine/ops/window.h"
#include "kernels/gemm/gemm.h"

namespace sluice::engine {
namespace {

// Dequantizes input i; none if omitted.
Tensor dequantized(OpCall& call, std::size_t i, double zero = 0, double scale = 1) {
  if (!call.has(i)) return {};
  const Tensor& input = call.input(i);
  const Tensor made = converted(input, DType::f64);
  if (bits(input.dtype()) > 8) return made;
  for (double& x : made.values<double>()) x = (x - zero) * scale;
  return made;
}

// The inputs and parameters besides x and w.
struct EpilogueInputs {
  Tensor bias, residual, scale;
  ActivationParams activation;
  QuantParams params;

  EpilogueInputs(OpCall& call, const Shape& shape)
      : activation(activation_params_of(call.attributes())),
        params(quant_params_of(call.attributes())) {
    const std::int64_t n = shape[shape.rank() - 1];
    require(call.has(4), "scales are missing");
    require_shape(call.input(4), "scale", {n});
    require_shape(call.input_or_none(2), "bias", {n});
    require_shape(call.input_or_none(3), "residual", shape);
    call.declare_output(0, params.to, shape);
    bias = dequantized(call, 2);
    scale = dequantized(call, 4);
    residual =
        dequantized(call, 3, params.residual_zero, static_cast<double>(params.residual_scale));
  }

  void store(OpCall& call, const Tensor& y) const {
    if (!params.is_quantized()) return call.set_output(0, converted(y, params.to));
    const Tensor zero_points(DType::f64, y.shape());
    std::fill_n(doubles(zero_points), zero_points.size(), static_cast<double>(params.to_zero));
    for (double& x : y.values<double>()) x /= static_cast<double>(params.to_scale);
    call.set_output(0, quantized(y, zero_points, params.to, true));
  }
};

Tensor dequantized_x(OpCall& call) {
  return dequantized(call, 0, static_cast<double>(call.attributes().integer("zero", 0)));
}

void quantized_linear(OpCall& call) {
  require(call.has(1), "weights are missing");
  const Shape in = call.input(0).shape(), of_w = call.input(1).shape();
  const int last = in.rank() - 1;
  require(last >= 0 && of_w.rank() == 2 && in[last] == of_w[0],
          "weights of shape " + to_string(of_w) + " for an input of " + to_string(in));
  const std::int64_t k = of_w[0], n = of_w[1], rows = in.size(0, last);
  Shape shape = in;
  shape[last] = n;
  const EpilogueInputs rest(call, shape);
  const Tensor x = dequantized_x(call), w = dequantized(call, 1), y(DType::f64, shape);
  kernels::matmul<double>(call.workers, rows, n, k, {doubles(x), k, 1}, {doubles(w), n, 1},
                          doubles(y), n);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    double& value = doubles(y)[i];
    value = value * doubles(rest.scale)[i % n] + (rest.bias ? doubles(rest.bias)[i % n] : 0);
    value = rest.activation(value) + (rest.residual ? doubles(rest.residual)[i] : 0);
  }
  rest.store(call, y);
}

// The window of a convolution over [batch, height, width, channels].
Window window_of(OpCall& call, const Shape& in, const Tensor& weights) {
  // Kernels read `pads` only; with auto_pad they would compute another output size.
  require(!call.attributes().has("auto_pad"), "auto_pad is not known here: give pads");
  return read_window(call.attributes(), {in[0], in[3], in[1], in[2]}, weights);
}

void quantized_conv(OpCall& call) {
  require(call.has(1), "weights are missing");
  const Shape in = call.input(0).shape(), of_w = call.input(1).shape();
  require(in.rank() == 4 && of_w.rank() == 4 && of_w[1] == in[3],
          "weights of shape " + to_string(of_w) + " for an input of " + to_string(in));
  const Window window = window_of(call, in, call.input(1));
  const Window::Axis &high = window.axes()[0], &broad = window.axes()[1];
  const std::int64_t outs = of_w[0], ins = of_w[1], taps = of_w[2] * of_w[3];
  const Shape shape{in[0], high.out, broad.out, outs};
  const EpilogueInputs rest(call, shape);
  const Tensor x = dequantized_x(call), w = dequantized(call, 1), y(DType::f64, shape);
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const std::int64_t o = i % outs, column = i / outs % broad.out,
                       row = i / outs / broad.out % high.out;
    const double* const image = doubles(x) + i / outs / broad.out / high.out * in.size(1, 4);
    const std::int64_t top = high.start(row), left = broad.start(column);
    double sum = 0;
    for (std::int64_t r = high.first(top); r < high.last(top); ++r)
      for (std::int64_t c = broad.first(left); c < broad.last(left); ++c) {
        const double* const from =
            image + ((top + r * high.dilation) * broad.in + left + c * broad.dilation) * ins;
        for (std::int64_t k = 0; k < ins; ++k)
          sum += from[k] * doubles(w)[(o * ins + k) * taps + r * broad.kernel + c];
      }
    sum = sum * doubles(rest.scale)[o] + (rest.bias ? doubles(rest.bias)[o] : 0);
    doubles(y)[i] = rest.activation(sum + (rest.residual ? doubles(rest.residual)[i] : 0));
  }
  rest.store(call, y);
}

constexpr Op kFusedQuantizedOps[] = {
    {"QuantizedConv", 1, {DType::u8, DType::i8}, quantized_conv, "sluice"},
    {"QuantizedLinear", 1, {DType::u8, DType::i8, DType::f8e4m3fn}, quantized_linear, "sluice"},
};

}  // namespace

std::span<const Op> fused_quantized_ops() { return kFusedQuantizedOps; }

}  // namespace sluice::engine
