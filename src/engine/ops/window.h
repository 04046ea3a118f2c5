// The sliding window of a node over the spatial axes of a tensor [N, C, ...].
#pragma once

#include "engine/ops/op.h"
#include "kernels/conv/window.h"

namespace sluice::engine {

using kernels::Window;

// Whether an incomplete last window of an axis counts (ceil_mode).
enum class LastWindow { dropped, kept_where_it_begins_inside };

// Reads strides, dilations, pads and auto_pad, and kernel_shape, which is required without
// `weights` [M, C, kernel...]. read_kernel() omits pads and output sizes.
Window read_kernel(const Attributes& attributes, const Shape& input, const Tensor& weights);
Window read_window(const Attributes& attributes, const Shape& input, const Tensor& weights,
                   LastWindow last = LastWindow::dropped);

}  // namespace sluice::engine
