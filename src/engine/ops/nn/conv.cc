// Float and quantized convolutions.
#include <cmath>
#include <limits>

#include "engine/ops/families.h"
#include "engine/ops/nn/im2col_conv.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

Tensor checked_bias(OpCall& call, std::size_t i, std::int64_t filters) {
  const Tensor bias = call.input_or_none(i);
  require(!bias || bias.size() == filters, "a bias of " + std::to_string(bias.size()) +
                                               " values for " + std::to_string(filters) +
                                               " filters");
  return bias;
}

template <class T>
const T* data_or_null(const Tensor& tensor) {
  return tensor ? as<T>(tensor).data() : nullptr;
}

void conv(OpCall& call) {
  const DType type = call.input(0).dtype();
  require(call.input(1).dtype() == type, "inputs of two element types");
  const Convolution c = read_convolution(call.attributes(), call.input(0).shape(), call.input(1));
  const Tensor bias = checked_bias(call, 2, c.filters);
  require(!bias || bias.dtype() == type, "inputs of two element types");
  const Shape shape = c.window.output(c.batch, c.filters);
  call.declare_output(0, type, shape);
  const Tensor x = widened(call.input(0)), w = widened(call.input(1)), wide_bias = widened(bias);
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() {
    convolve<T>(call.workers, c, as<T>(x).data(), as<T>(w).data(), data_or_null<T>(wide_bias),
                as<T>(y).data());
  });
  call.set_output(0, narrowed(y, type));
}

// Subtracts the zero point, which is one value or one per slice along axis 0.
std::vector<std::uint32_t> centred(const Tensor& values, const Tensor& zero) {
  std::vector<std::uint32_t> result(static_cast<std::size_t>(values.size()));
  require(!zero || zero.dtype() == values.dtype(), "a zero point of another element type");
  const std::int64_t zeros = zero ? zero.size() : 1;
  require(zeros == 1 || zeros == values.shape()[0],
          std::to_string(zeros) + " zero points for " + to_string(values.shape()));
  visit_types<std::uint8_t, std::int8_t>(values.dtype(), [&]<class T>() {
    const auto from = as<T>(values);
    const std::size_t slice = result.size() / std::max<std::size_t>(1, std::size_t(zeros));
    for (std::size_t i = 0; i < result.size(); ++i) {
      const int less = zero ? as<T>(zero)[zeros == 1 ? 0 : i / slice] : 0;
      result[i] = static_cast<std::uint32_t>(int{from[i]} - less);
    }
  });
  return result;
}

void conv_integer(OpCall& call) {
  const Tensor &x = call.input(0), &w = call.input(1);
  const Convolution c = read_convolution(call.attributes(), x.shape(), w);
  const Tensor x_zero = call.input_or_none(2);
  require(!x_zero || x_zero.size() == 1, "x_zero_point must be one number");
  const Tensor y = call.output(0, DType::i32, c.window.output(c.batch, c.filters));
  convolve<std::uint32_t>(call.workers, c, centred(x, x_zero).data(),
                          centred(w, call.input_or_none(3)).data(), nullptr,
                          static_cast<std::uint32_t*>(y.data()));
}

// Expands a single value to one per filter.
std::vector<double> scales(const Tensor& tensor, std::int64_t filters) {
  require(tensor.size() == 1 || tensor.size() == filters,
          std::to_string(tensor.size()) + " scales for " + std::to_string(filters) + " filters");
  const Tensor wide = widened(tensor);
  std::vector<double> all(static_cast<std::size_t>(filters));
  visit_wide(wide.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<double>(as<T>(wide)[wide.size() == 1 ? 0 : i]);
  });
  return all;
}

template <class T>
void requantize(const std::vector<std::uint32_t>& sums, const std::vector<double>& factors,
                std::int64_t outs, double zero, T* y) {
  constexpr double kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t filter = i / static_cast<std::size_t>(outs) % factors.size();
    const double value =
        std::nearbyint(static_cast<std::int32_t>(sums[i]) * factors[filter]) + zero;
    y[i] = static_cast<T>(std::isnan(value) ? kMin : std::clamp(value, kMin, kMax));
  }
}

// Inputs: x, its scale and zero point, w, its scale and zero point, those of y, bias.
void qlinear_conv(OpCall& call) {
  const Tensor &x = call.input(0), &w = call.input(3), &y_zero = call.input(7);
  const Convolution c = read_convolution(call.attributes(), x.shape(), w);
  require(call.input(2).size() == 1, "x_zero_point must be one number");
  const Tensor bias = checked_bias(call, 8, c.filters);
  require(!bias || bias.dtype() == DType::i32, "the bias must be i32");
  std::vector<double> factors = scales(call.input(4), c.filters);
  const double by = number(call.input(1)) / number(call.input(6));
  for (double& factor : factors) factor *= by;
  const Tensor y = call.output(0, y_zero.dtype(), c.window.output(c.batch, c.filters));
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(y.size()));
  convolve<std::uint32_t>(
      call.workers, c, centred(x, call.input(2)).data(), centred(w, call.input(5)).data(),
      bias ? static_cast<const std::uint32_t*>(bias.data()) : nullptr, sums.data());
  visit_types<std::uint8_t, std::int8_t>(y.dtype(), [&]<class T>() {
    requantize(sums, factors, c.window.outs(), number(y_zero), as<T>(y).data());
  });
}

constexpr Types kBytes{DType::u8, DType::i8};

constexpr Op kConvOps[] = {
    {"Conv", 1, kReals, conv},
    {"ConvInteger", 10, kBytes, conv_integer},
    {"QLinearConv", 10, kBytes, qlinear_conv},
};

}  // namespace

std::span<const Op> conv_ops() { return kConvOps; }

}  // namespace sluice::engine
