#include "engine/ops/math/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/ops/axes.h"
#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

// The scale index of each element.
struct Scales {
  std::int64_t n = 1, inner = 1;      // elements along the axis, and inner elements
  std::int64_t block = 1, parts = 1;  // block size, and number of scales along the axis
  bool one = true;

  Scales(OpCall& call, const Shape& x, const Shape& scale) {
    const std::int64_t count = scale.size();
    require(count > 0 || x.size() == 0, "scales of shape " + to_string(scale));
    const std::int64_t size = call.attributes().integer("block_size", 0);
    require(size >= 0, "block_size is negative");
    if (size == 0 && count == 1 && scale.rank() <= 1) return;
    one = false;
    const std::int64_t named = call.attributes().integer("axis", 1);
    // One scale per element of a vector: the default axis, 1, is out of range.
    const int axis = x.rank() == 1 && named == 1 ? 0 : resolve_axis(named, x.rank());
    n = x[axis];
    inner = x.size(axis + 1, x.rank());
    parts = size == 0 ? n : n / size + (n % size != 0 ? 1 : 0);
    block = size == 0 ? 1 : size;
    Shape want{n};
    if (size > 0) {
      want = x;
      want[axis] = parts;
    }
    require(scale == want, "scales of shape " + to_string(scale) + ", not " + to_string(want));
    per_axis = size == 0;
  }

  std::int64_t operator()(std::int64_t i) const {
    if (one) return 0;
    const std::int64_t along = i / inner % n;
    if (per_axis) return along;
    return (i / inner / n * parts + along / block) * inner + i % inner;
  }

 private:
  bool per_axis = false;
};

template <class T>
void round_to(const Tensor& scaled, const Tensor& zero_points, const Tensor& out, double min,
              double max) {
  const auto x = scaled.values<double>(), zero = zero_points.values<double>();
  const auto y = as<T>(out);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double value = std::nearbyint(x[i]) + zero[i];
    const double clamped = std::isnan(value) ? min : std::max(min, std::min(max, value));
    if constexpr (std::is_integral_v<T>)
      y[i] = static_cast<T>(clamped);
    else
      y[i] = T(static_cast<int>(clamped));
  }
}

// The zero point of each element as f64; zeros if there is none.
Tensor zeros_for(const Tensor& zero, const Shape& shape, const Scales& scales) {
  const Tensor zeros(DType::f64, shape);
  const auto z = zeros.values<double>();
  std::fill(z.begin(), z.end(), 0.0);
  if (!zero) return zeros;
  const Tensor wide = converted(zero, DType::f64);
  for (std::size_t i = 0; i < z.size(); ++i)
    z[i] = wide.values<double>()[static_cast<std::size_t>(scales(static_cast<std::int64_t>(i)))];
  return zeros;
}

Tensor zero_point(OpCall& call, const Tensor& scale) {
  const Tensor zero = call.input_or_none(2);
  require(!zero || zero.size() == scale.size(), "as many zero points as scales are needed");
  return zero;
}

// Reads an attribute with an element type, 0 for none.
DType type_attribute(OpCall& call, std::string_view name) {
  return call.attributes().integer(name, 0) == 0 ? DType::none
                                                 : call.attributes().dtype(name, DType::f32);
}

// The type in which x / scale is computed and rounded.
DType division_type(OpCall& call, const Tensor& x, const Tensor& scale) {
  const DType requested = type_attribute(call, "precision");
  if (requested != DType::none) return requested;
  if (x.dtype() == scale.dtype() && is_float(x.dtype())) return x.dtype();
  return DType::f32;
}

void quantize(OpCall& call) {
  const Tensor &in = call.input(0), &scale = call.input(1);
  const Scales scales(call, in.shape(), scale.shape());
  const Tensor zero = zero_point(call, scale);
  const DType requested = type_attribute(call, "output_dtype");
  const DType to = zero ? zero.dtype() : requested == DType::none ? DType::u8 : requested;
  require(requested == DType::none || requested == to, "output_dtype is not the zero point's type");
  call.declare_output(0, to, in.shape());
  const DType precision = division_type(call, in, scale);
  const Tensor x = converted(in, precision), s = converted(scale, precision);
  const Tensor scaled(DType::f64, in.shape());
  const auto y = scaled.values<double>();
  visit_reals(precision, [&]<class T>() {
    const auto from = as<T>(x), by = as<T>(s);
    for (std::size_t i = 0; i < y.size(); ++i) {
      using W = Wide<T>;
      const W divisor = by[static_cast<std::size_t>(scales(static_cast<std::int64_t>(i)))];
      y[i] = static_cast<double>(static_cast<W>(T(static_cast<W>(from[i]) / divisor)));
    }
  });
  call.set_output(0, quantized(scaled, zeros_for(zero, in.shape(), scales), to,
                               call.attributes().flag("saturate", true)));
}

std::uint8_t* as_bytes(const Tensor& tensor) { return static_cast<std::uint8_t*>(tensor.data()); }

// Fast path for weights, which may be many.
void scale_bytes(const Tensor& in, std::span<const float> scale, const Scales& scales,
                 std::span<float> y) {
  std::array<float, 256> numbers{};
  const Tensor all(in.dtype(), {256});
  std::iota(as_bytes(all), as_bytes(all) + 256, std::uint8_t{0});
  const Tensor wide = converted(all, DType::f32);
  std::ranges::copy(wide.values<float>(), numbers.begin());
  const std::uint8_t* const x = as_bytes(in);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = numbers[x[i]] * scale[static_cast<std::size_t>(scales(static_cast<std::int64_t>(i)))];
}

void dequantize(OpCall& call) {
  const Tensor &in = call.input(0), &scale = call.input(1);
  const Scales scales(call, in.shape(), scale.shape());
  const Tensor zero = zero_point(call, scale);
  require(!zero || zero.dtype() == in.dtype(), "the zero point is of another element type");
  const DType requested = type_attribute(call, "output_dtype");
  const DType to = requested == DType::none ? scale.dtype() : requested;
  const Tensor made = call.output(0, to, in.shape());
  if (to == DType::f32 && scale.dtype() == DType::f32 && !zero && bits(in.dtype()) <= 8)
    return scale_bytes(in, scale.values<float>(), scales, made.values<float>());
  const Tensor x = converted(in, DType::f64), s = converted(scale, DType::f64);
  const Tensor zeros = zeros_for(zero, in.shape(), scales);
  const Tensor out(DType::f64, in.shape());
  const auto y = out.values<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto which = static_cast<std::size_t>(scales(static_cast<std::int64_t>(i)));
    y[i] = (x.values<double>()[i] - zeros.values<double>()[i]) * s.values<double>()[which];
  }
  call.set_output(0, converted(out, to));
}

// Scale and zero point from the range of the values, extended to include 0.
void dynamic_quantize(OpCall& call) {
  const Tensor& in = call.input(0);
  call.declare_output(0, DType::u8, in.shape());
  call.declare_output(1, DType::f32, {});
  call.declare_output(2, DType::u8, {});
  float min = 0, max = 0;
  for (const float x : in.values<float>()) {
    min = std::min(min, x);
    max = std::max(max, x);
  }
  const float scale = (max - min) / 255.0f;
  const float start = scale == 0 ? 0 : std::nearbyint(std::clamp(0 - min / scale, 0.0f, 255.0f));
  const Tensor out = call.output(0, DType::u8, in.shape());
  const auto y = out.values<std::uint8_t>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float scaled = scale == 0 ? 0 : std::nearbyint(in.values<float>()[i] / scale);
    const float value = std::clamp(scaled + start, 0.0f, 255.0f);
    y[i] = std::isnan(value) ? std::uint8_t(0) : static_cast<std::uint8_t>(value);
  }
  call.set_output(1, Tensor::of(scale));
  call.set_output(
      2, Tensor::of(std::isnan(start) ? std::uint8_t(0) : static_cast<std::uint8_t>(start)));
}

constexpr Types kQuantized =
    kLowPrecision | Types{DType::i8, DType::u8, DType::i16, DType::u16, DType::i32};

constexpr Op kQuantizeOps[] = {
    {"DequantizeLinear", 10, kQuantized, dequantize},
    {"DynamicQuantizeLinear", 11, {DType::f32}, dynamic_quantize},
    {"QuantizeLinear", 10, kReals | Types{DType::i32}, quantize},
};

}  // namespace

Tensor quantized(const Tensor& scaled, const Tensor& zero_points, DType to, bool saturate) {
  const Tensor out(to, scaled.shape());
  if (is_integer(to)) {
    visit_types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, Int4, UInt4,
                Int2, UInt2>(to, [&]<class T>() {
      if constexpr (std::is_integral_v<T>)
        round_to<T>(scaled, zero_points, out, std::numeric_limits<T>::lowest(),
                    std::numeric_limits<T>::max());
      else
        round_to<T>(scaled, zero_points, out, T::kMin, T::kMax);
    });
    return out;
  }
  if (!is_float(to) || bits(to) > 8) unsupported_type(to);
  const Tensor moved(DType::f64, scaled.shape());
  const auto from = scaled.values<double>(), zero = zero_points.values<double>();
  for (std::size_t i = 0; i < from.size(); ++i) moved.values<double>()[i] = from[i] + zero[i];
  return converted(moved, to, {.saturate = saturate});
}

std::span<const Op> quantize_ops() { return kQuantizeOps; }

}  // namespace sluice::engine
