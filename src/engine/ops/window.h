// The window of a node that slides over the spatial axes of a tensor [N, C, ...].
#pragma once

#include "engine/ops/op.h"
#include "kernels/conv/window.h"

namespace sluice::engine {

using kernels::Window;

// How the last window of an axis is counted where it does not fit whole.
enum class LastWindow { dropped, kept_where_it_begins_inside };

// From the attributes strides, dilations, pads and auto_pad (and kernel_shape, which must be
// there where `weights`, [M, C, kernel...], is none). read_kernel() leaves out pads and output
// sizes, for what computes its own.
Window read_kernel(const Attributes& attributes, const Shape& input, const Tensor& weights);
Window read_window(const Attributes& attributes, const Shape& input, const Tensor& weights,
                   LastWindow last = LastWindow::dropped);

}  // namespace sluice::engine
