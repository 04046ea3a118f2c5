#include "engine/exec/cpu/image_window.h"

#include <string_view>

namespace sluice::engine::cpu {
namespace {

using kernels::Window;

Window::Axis axis_of(const Attributes& attributes, std::size_t i, std::int64_t in,
                     std::int64_t kernel) {
  const auto at = [&](std::string_view name, std::size_t index, std::int64_t default_value) {
    const auto all = attributes.integers(name);
    return index < all.size() ? all[index] : default_value;
  };
  Window::Axis axis{.in = in,
                    .kernel = kernel,
                    .stride = at("strides", i, 1),
                    .dilation = at("dilations", i, 1),
                    .before = at("pads", i, 0),
                    .after = at("pads", i + 2, 0)};
  const std::int64_t extent = in + axis.before + axis.after - axis.extent();
  axis.out = extent < 0 ? 0 : extent / axis.stride + 1;
  return axis;
}

}  // namespace

ImageWindow image_window(const Attributes& attributes, const Shape& in, std::int64_t rows,
                         std::int64_t columns) {
  return {.batch = in[0],
          .channels = in[3],
          .high = axis_of(attributes, 0, in[1], rows),
          .wide = axis_of(attributes, 1, in[2], columns)};
}

}  // namespace sluice::engine::cpu
