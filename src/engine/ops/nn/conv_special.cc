// Transposed and deformable convolutions, and causal convolution with state.
#include <cmath>

#include "engine/ops/families.h"
#include "engine/ops/nn/im2col_conv.h"
#include "engine/ops/wide.h"

namespace sluice::engine {
namespace {

// For ConvTranspose, `axis.in` is the smaller side and `axis.out` the larger one.
void size_transposed(Window::Axis& axis, std::int64_t extra, std::int64_t output_shape, bool upper,
                     std::int64_t before, std::int64_t after) {
  require(axis.in <= (std::int64_t{1} << 31), "an axis of " + std::to_string(axis.in));
  const std::int64_t full_size = axis.stride * (axis.in - 1) + extra + axis.extent();
  if (output_shape >= 0) {
    const std::int64_t total = std::max<std::int64_t>(0, full_size - output_shape);
    axis.before = upper ? total / 2 : total - total / 2;
    axis.out = output_shape;
    return;
  }
  axis.before = before;
  axis.out = std::max<std::int64_t>(0, full_size - before - after);
}

std::vector<std::int64_t> list_or(const Attributes& attributes, std::string_view name,
                                  std::size_t size, std::int64_t default_value) {
  auto list = attributes.integers(name);
  if (list.empty()) list.assign(size, default_value);
  require(list.size() == size, std::string(name) + " has " + std::to_string(list.size()) +
                                   " values, not " + std::to_string(size));
  for (const std::int64_t value : list)
    require(value >= default_value && value < (std::int64_t{1} << 31),
            std::string(name) + " has a value of " + std::to_string(value));
  return list;
}

Window read_transposed(const Attributes& attributes, const Shape& input, const Tensor& weights) {
  Window window = read_kernel(attributes, input, weights);
  const auto axes = static_cast<std::size_t>(window.rank);
  const std::string automatic = attributes.string("auto_pad", "NOTSET");
  const bool same = automatic.starts_with("SAME_");
  const auto pads = list_or(attributes, "pads", 2 * axes, 0);
  const auto extra = list_or(attributes, "output_padding", axes, 0);
  auto output_shape = attributes.integers("output_shape");
  if (output_shape.size() == axes + 2)
    output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  require(output_shape.empty() || output_shape.size() == axes,
          "output_shape is not one for each axis");
  for (std::size_t i = 0; i < axes; ++i) {
    Window::Axis& axis = window.axes()[i];
    std::int64_t out = -1;
    if (!output_shape.empty()) {
      out = output_shape[i];
      require(out >= 0 && out < (std::int64_t{1} << 31), "an output of " + std::to_string(out));
    } else if (same) {
      out = axis.in * axis.stride;
    }
    const bool padded = automatic != "VALID";
    size_transposed(axis, extra[i], out, automatic == "SAME_UPPER", padded ? pads[i] : 0,
                    padded ? pads[axes + i] : 0);
  }
  return window;
}

// Scatters one input channel into one output channel.
template <class T>
void spread(const Window& window, const T* x, const T* w, T* y) {
  const auto& [deep, high, wide] = window.axis;
  for (std::int64_t i = 0; i < deep.in; ++i)
    for (std::int64_t j = 0; j < high.in; ++j, x += wide.in) {
      const T* weight = w;
      for (std::int64_t a = 0; a < deep.kernel; ++a)
        for (std::int64_t b = 0; b < high.kernel; ++b, weight += wide.kernel) {
          const std::int64_t p = deep.start(i) + a * deep.dilation;
          const std::int64_t q = high.start(j) + b * high.dilation;
          if (p < 0 || p >= deep.out || q < 0 || q >= high.out) continue;
          T* const row = y + (p * high.out + q) * wide.out;
          for (std::int64_t k = 0; k < wide.in; ++k)
            for (std::int64_t c = 0; c < wide.kernel; ++c) {
              const std::int64_t r = wide.start(k) + c * wide.dilation;
              if (r >= 0 && r < wide.out) row[r] += x[k] * weight[c];
            }
        }
    }
}

// Weights are [channels, filters / groups, kernel...].
template <class T>
void transpose_convolve(OpCall& call, const Convolution& c, const Tensor& x, const Tensor& w,
                        const Tensor& bias, const Tensor& y) {
  const std::int64_t own = c.channels / c.groups, made = c.filters / c.groups;
  const std::int64_t outs = c.window.outs(), taps = c.window.taps();
  const T *const from = as<T>(x).data(), *const weights = as<T>(w).data();
  const auto jobs = static_cast<std::size_t>(c.batch * c.filters);
  call.workers.each(jobs, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at) {
      const std::int64_t image = static_cast<std::int64_t>(at) / c.filters;
      const std::int64_t filter = static_cast<std::int64_t>(at) % c.filters;
      T* const to = as<T>(y).data() + static_cast<std::int64_t>(at) * outs;
      std::fill(to, to + outs, bias ? as<T>(bias)[static_cast<std::size_t>(filter)] : T(0));
      for (std::int64_t k = 0; k < own; ++k) {
        const std::int64_t channel = filter / made * own + k;
        spread(c.window, from + (image * c.channels + channel) * c.window.ins(),
               weights + (channel * made + filter % made) * taps, to);
      }
    }
  });
}

void conv_transpose(OpCall& call) {
  const DType type = call.input(0).dtype();
  const Shape &in = call.input(0).shape(), &of_w = call.input(1).shape();
  const Tensor given = call.input_or_none(2);
  require(call.input(1).dtype() == type && (!given || given.dtype() == type),
          "inputs of two element types");
  const Window window = read_transposed(call.attributes(), in, call.input(1));
  Convolution c{in[0], in[1], 0, call.attributes().integer("group", 1), window};
  require(c.groups > 0 && c.channels % c.groups == 0 && of_w[0] == c.channels,
          "weights of shape " + to_string(of_w) + " for an input of " + to_string(in));
  const std::array<std::int64_t, 2> filters{of_w[1], c.groups};
  c.filters = checked_size(filters);
  require(!given || given.size() == c.filters, "the bias is not one for each filter");
  const Shape shape = c.window.output(c.batch, c.filters);
  call.declare_output(0, type, shape);
  const Tensor x = widened(call.input(0)), w = widened(call.input(1)), bias = widened(given);
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() { transpose_convolve<T>(call, c, x, w, bias, y); });
  call.set_output(0, narrowed(y, type));
}

// Bilinear sample of the image, zero outside.
template <class T>
T between(const T* image, const Window& window, T y, T x) {
  const std::int64_t height = window.axis[1].in, width = window.axis[2].in;
  if (!(y > -1 && y < static_cast<T>(height) && x > -1 && x < static_cast<T>(width))) return 0;
  const auto i = static_cast<std::int64_t>(std::floor(y));
  const auto j = static_cast<std::int64_t>(std::floor(x));
  const T down = y - static_cast<T>(i), right = x - static_cast<T>(j);
  const auto pixel = [&](std::int64_t a, std::int64_t b) {
    return a >= 0 && a < height && b >= 0 && b < width ? image[a * width + b] : T(0);
  };
  return (1 - down) * ((1 - right) * pixel(i, j) + right * pixel(i, j + 1)) +
         down * ((1 - right) * pixel(i + 1, j) + right * pixel(i + 1, j + 1));
}

// Offsets (y, x) and a mask factor for each kernel position, in `groups` channel groups.
struct Deformation {
  Tensor offsets, mask;
  std::int64_t groups;
};

Deformation read_deformation(OpCall& call, const Convolution& c) {
  const Deformation d{widened(call.input(2)), widened(call.input_or_none(4)),
                      call.attributes().integer("offset_group", 1)};
  require(
      d.groups > 0 && c.channels % d.groups == 0,
      std::to_string(d.groups) + " offset groups of " + std::to_string(c.channels) + " channels");
  const std::int64_t moved = d.groups * c.window.taps();
  const Window& w = c.window;
  require(d.offsets.shape() == Shape({c.batch, 2 * moved, w.axis[1].out, w.axis[2].out}),
          "offsets of shape " + to_string(d.offsets.shape()));
  require(!d.mask || d.mask.shape() == Shape({c.batch, moved, w.axis[1].out, w.axis[2].out}),
          "a mask of shape " + to_string(d.mask.shape()));
  return d;
}

// One im2col row: kernel position (i, j) of one channel.
template <class T>
void fill_deformed(const T* image, const Window& window, std::int64_t i, std::int64_t j,
                   const T* offsets, const T* mask, std::int64_t first, std::int64_t count, T* to) {
  const Window::Axis &high = window.axis[1], &wide = window.axis[2];
  const std::int64_t outs = window.outs();
  for (std::int64_t at = first; at < first + count; ++at) {
    const auto y = static_cast<T>(high.start(at / wide.out) + i * high.dilation) + offsets[at];
    const auto x =
        static_cast<T>(wide.start(at % wide.out) + j * wide.dilation) + offsets[outs + at];
    *to++ = between(image, window, y, x) * (mask != nullptr ? mask[at] : T(1));
  }
}

template <class T>
void deform_convolve(OpCall& call, const Convolution& c, const Deformation& d, const Tensor& x,
                     const Tensor& w, const Tensor& bias, const Tensor& y) {
  const std::int64_t own = c.channels / c.groups, size = c.window.ins(), outs = c.window.outs();
  const std::int64_t taps = c.window.taps(), wide = c.window.axis[2].kernel;
  convolve_columns<T>(
      call.workers, c, as<T>(w).data(), bias ? as<T>(bias).data() : nullptr, as<T>(y).data(),
      [&](std::int64_t image, std::int64_t group, std::int64_t first, std::int64_t count, T* to) {
        for (std::int64_t k = 0; k < own; ++k) {
          const std::int64_t channel = group * own + k;
          const std::int64_t moved = image * d.groups + channel / (c.channels / d.groups);
          for (std::int64_t tap = 0; tap < taps; ++tap, to += count) {
            const std::int64_t at = (moved * taps + tap) * outs;
            fill_deformed(as<T>(x).data() + (image * c.channels + channel) * size, c.window,
                          tap / wide, tap % wide, as<T>(d.offsets).data() + 2 * at,
                          d.mask ? as<T>(d.mask).data() + at : nullptr, first, count, to);
          }
        }
      });
}

void deform_conv(OpCall& call) {
  const DType type = call.input(0).dtype();
  for (std::size_t i = 1; i < call.inputs(); ++i)
    require(!call.has(i) || call.input(i).dtype() == type, "inputs of two element types");
  const Tensor x = widened(call.input(0)), w = widened(call.input(1));
  if (x.rank() != 4) throw Error(Code::unavailable, "only images of two axes can be deformed");
  const Convolution c = read_convolution(call.attributes(), x.shape(), w);
  const Tensor bias = widened(call.input_or_none(3));
  require(!bias || bias.size() == c.filters, "the bias is not one for each filter");
  const Deformation d = read_deformation(call, c);
  const Shape shape = c.window.output(c.batch, c.filters);
  call.declare_output(0, type, shape);
  const Tensor y(x.dtype(), shape);
  visit_wide(x.dtype(), [&]<class T>() { deform_convolve<T>(call, c, d, x, w, bias, y); });
  call.set_output(0, narrowed(y, type));
}

// Concatenates state and input to [B, C, kernel - 1 + length].
template <class T>
Tensor with_state(const Tensor& x, const Tensor& past, std::int64_t kept) {
  const std::int64_t rows = x.shape()[0] * x.shape()[1], length = x.shape()[2];
  const Tensor both(x.dtype(), Shape{x.shape()[0], x.shape()[1], kept + length});
  T* to = as<T>(both).data();
  for (std::int64_t r = 0; r < rows; ++r) {
    to = past ? std::copy_n(as<T>(past).data() + r * kept, kept, to) : std::fill_n(to, kept, T(0));
    to = std::copy_n(as<T>(x).data() + r * length, length, to);
  }
  return both;
}

template <class T>
void causal(OpCall& call, DType type, const Tensor& both, const Tensor& w, const Tensor& bias,
            std::int64_t kept) {
  const Shape& shape = both.shape();
  const std::int64_t rows = shape[0] * shape[1], all = shape[2], length = all - kept;
  Attributes one_each;
  one_each.set("group", shape[1]);
  const Convolution c = read_convolution(one_each, shape, w);
  const Tensor y(both.dtype(), Shape{shape[0], shape[1], length});
  convolve<T>(call.workers, c, as<T>(both).data(), as<T>(w).data(),
              bias ? as<T>(bias).data() : nullptr, as<T>(y).data());
  const std::string activation = call.attributes().string("activation", "none");
  if (activation == "silu" || activation == "swish") {
    for (T& value : as<T>(y)) value = value / (1 + std::exp(-value));
  } else {
    require(activation == "none" || activation.empty(),
            "activation '" + activation + "' is not known");
  }
  const Tensor present(both.dtype(), Shape{shape[0], shape[1], kept});
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(as<T>(both).data() + r * all + length, kept, as<T>(present).data() + r * kept);
  call.set_output(0, narrowed(y, type));
  call.set_output(1, narrowed(present, type));
}

// Depthwise causal convolution.
void causal_conv_with_state(OpCall& call) {
  const DType type = call.input(0).dtype();
  const Tensor x = widened(call.input(0)), w = widened(call.input(1));
  const Tensor bias = widened(call.input_or_none(2)), past = widened(call.input_or_none(3));
  require(x.rank() == 3 && w.rank() == 3 && w.shape()[0] == x.shape()[1] && w.shape()[1] == 1 &&
              w.shape()[2] > 0,
          "weights of shape " + to_string(w.shape()) + " for an input of " + to_string(x.shape()));
  const std::int64_t kept = w.shape()[2] - 1;
  require(w.dtype() == x.dtype() && (!past || past.dtype() == x.dtype()) &&
              (!bias || bias.dtype() == x.dtype()),
          "inputs of two element types");
  require(!bias || bias.size() == x.shape()[1], "the bias is not one for each channel");
  require(!past || past.shape() == Shape({x.shape()[0], x.shape()[1], kept}),
          "a state of shape " + to_string(past.shape()));
  call.declare_output(0, type, x.shape());
  call.declare_output(1, type, Shape{x.shape()[0], x.shape()[1], kept});
  visit_wide(x.dtype(), [&]<class T>() {
    causal<T>(call, type, with_state<T>(x, past, kept), w, bias, kept);
  });
}

constexpr Op kConvSpecialOps[] = {
    {"ConvTranspose", 1, kReals, conv_transpose},
    {"DeformConv", 19, kReals, deform_conv},
    {"CausalConvWithState", 27, kReals, causal_conv_with_state},
};

}  // namespace

std::span<const Op> conv_special_ops() { return kConvSpecialOps; }

}  // namespace sluice::engine
