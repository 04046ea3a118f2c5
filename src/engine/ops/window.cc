#include "engine/ops/window.h"

namespace sluice::engine {
namespace {

// Upper bounds of attributes, so that no multiplication below overflows.
constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;

void check_list(std::string_view name, const std::vector<std::int64_t>& list, std::size_t size,
                std::int64_t min) {
  require(list.size() == size, std::string(name) + " has " + std::to_string(list.size()) +
                                   " values, not " + std::to_string(size));
  for (const std::int64_t value : list)
    require(value >= min && value <= kMax,
            std::string(name) + " has a value of " + std::to_string(value));
}

std::vector<std::int64_t> list_of(const Attributes& attributes, std::string_view name,
                                  std::size_t size) {
  auto list = attributes.integers(name, std::vector<std::int64_t>(size, 1));
  if (list.empty()) list.assign(size, 1);
  check_list(name, list, size, 1);
  return list;
}

std::vector<std::int64_t> kernel_of(const Attributes& attributes, std::size_t axes,
                                    const Tensor& weights) {
  std::vector<std::int64_t> kernel = attributes.integers("kernel_shape");
  if (weights) {
    require(weights.rank() == static_cast<int>(axes) + 2,
            "weights of shape " + to_string(weights.shape()) + " for " + std::to_string(axes) +
                " spatial axes");
    const std::vector<std::int64_t> own(weights.shape().begin() + 2, weights.shape().end());
    require(kernel.empty() || kernel == own, "kernel_shape is not that of the weights");
    kernel = own;
  }
  check_list("kernel_shape", kernel, axes, 1);
  return kernel;
}

void pad_same(Window::Axis& axis, bool upper) {
  axis.out = (axis.in + axis.stride - 1) / axis.stride;
  const std::int64_t total =
      std::max<std::int64_t>(0, (axis.out - 1) * axis.stride + axis.extent() - axis.in);
  axis.before = upper ? total / 2 : total - total / 2;
  axis.after = total - axis.before;
}

void size_axis(Window::Axis& axis, LastWindow last) {
  const std::int64_t span = axis.in + axis.before + axis.after - axis.extent();
  if (span < 0) {
    axis.out = 0;
    return;
  }
  const bool kept = last == LastWindow::kept_where_it_begins_inside;
  axis.out = (span + (kept ? axis.stride - 1 : 0)) / axis.stride + 1;
  if (kept && (axis.out - 1) * axis.stride >= axis.in + axis.before) --axis.out;
}

}  // namespace

Window read_kernel(const Attributes& attributes, const Shape& input, const Tensor& weights) {
  require(input.rank() >= 3, "an input of shape " + to_string(input) + " has no spatial axes");
  if (input.rank() > 2 + static_cast<int>(Window::kAxes))
    throw Error(Code::unavailable, "more than three spatial axes are not supported");
  Window window;
  window.rank = input.rank() - 2;
  const auto axes = static_cast<std::size_t>(window.rank);
  const auto kernel = kernel_of(attributes, axes, weights);
  const auto strides = list_of(attributes, "strides", axes);
  const auto dilations = list_of(attributes, "dilations", axes);
  for (std::size_t i = 0; i < axes; ++i) {
    Window::Axis& axis = window.axes()[i];
    axis.in = input[static_cast<int>(i) + 2];
    axis.kernel = kernel[i];
    axis.stride = strides[i];
    axis.dilation = dilations[i];
    require(axis.kernel <= kMax / axis.dilation, "the kernel is too large");
  }
  return window;
}

Window read_window(const Attributes& attributes, const Shape& input, const Tensor& weights,
                   LastWindow last) {
  Window window = read_kernel(attributes, input, weights);
  const std::string automatic = attributes.string("auto_pad", "NOTSET");
  const auto axes = static_cast<std::size_t>(window.rank);
  auto pads = attributes.integers("pads", std::vector<std::int64_t>(2 * axes, 0));
  if (pads.empty()) pads.assign(2 * axes, 0);
  check_list("pads", pads, 2 * axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    Window::Axis& axis = window.axes()[i];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      pad_same(axis, automatic == "SAME_UPPER");
      continue;
    }
    require(automatic == "NOTSET" || automatic == "VALID" || automatic.empty(),
            "auto_pad '" + automatic + "' is not known");
    if (automatic != "VALID") {
      axis.before = pads[i];
      axis.after = pads[axes + i];
    }
    size_axis(axis, automatic == "VALID" ? LastWindow::dropped : last);
  }
  return window;
}

}  // namespace sluice::engine
