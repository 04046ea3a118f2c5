// The window of a Conv or pool node over images [batch, height, width, channels].
#pragma once

#include "engine/graph/attributes.h"
#include "kernels/conv/channelwise_cpu.h"
#include "tensor/shape.h"

namespace sluice::engine::cpu {

using kernels::cpu::ImageWindow;

// Reads strides, dilations and pads of a node.
ImageWindow image_window(const Attributes& attributes, const Shape& in, std::int64_t rows,
                         std::int64_t columns);

}  // namespace sluice::engine::cpu
