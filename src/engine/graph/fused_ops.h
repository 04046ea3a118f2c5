// The operators that fusing makes (domain "sluice"). Each is also an ordinary operator of the
// CPU (ops/fused.cc), which is the reference for every kernel that runs it faster.
//
//   Linear     x [..., k], w [k, n], bias? [n], residual? [..., n]
//              -> activation(x * w + bias) + residual
//              activation
//   Attention  q, k, v [batch, length, heads * size], mask? (added to the scores, broadcast to
//              [batch, heads, queries, keys]) -> [batch, queries, heads * size]
//              heads, scale; packed = 1: q is all three, [batch, length, 3 * heads * size], and
//              k and v are left out
//              offsets? i32 [sequences + 1], without a mask: the batch is one entry, in which
//              sequences of at most `longest` tokens lie one after the other, each from its offset
//              to the next; no token sees those of another, and those of no sequence become zeros
//   Place      x [1, tokens, ...], places i32 [batch, length] -> [batch, length, ...]
//              token number places[b, l], from 0 on, or zeros where that is beyond the last
//   Norm       x [..., n], residual? [..., n], scale [n], bias? [n]
//              -> mean 0 and variance 1 of x + residual along the last axis, scaled and shifted;
//              where a second output is asked for, the first in steps, by QuantParams
//              epsilon
//   Conv       x [batch, height, width, in], w [out, in / group, rows, columns], bias? [out],
//              residual? [batch, height, width, out] -> activation(conv + bias + residual)
//              strides, dilations [2]; pads [4]: top, left, bottom, right; group; activation
//   MaxPool, AveragePool
//              x [batch, height, width, channels], of MaxPool u8 or i8 as well
//              kernel, strides, dilations [2]; pads [4]; count_include_pad of AveragePool
//   QuantizedLinear
//              x u8, i8 or f8e4m3 [..., k], w i8 or f8e4m3 [k, n], bias? f32 [n],
//              residual? [..., n], scale f32 [n]
//              -> activation((x - zero) * w * scale + bias) + residual
//              zero, activation; see QuantParams for a result and a residual that are small too
//   QuantizedConv
//              x u8 or i8 [batch, height, width, in], w i8 [out, in, rows, columns], bias? f32
//              [out], residual? [batch, height, width, out], scale f32 [out]
//              -> activation(conv of x - zero * scale + bias + residual)
//              as Conv, with one group; as QuantizedLinear
//   Chain      inputs of one element type, broadcast to one shape -> the same type
//              code: instructions, see chain_of()
#pragma once

#include <cstddef>

#include "engine/graph/attributes.h"
#include "kernels/common/epilogue.h"
#include "kernels/common/quant_params.h"
#include "kernels/elementwise/chain.h"

namespace sluice::engine {

using kernels::Activation;
using kernels::activation_named;
using kernels::Chain;
using kernels::Epilogue;
using kernels::QuantParams;
using kernels::to_string;

// "activation" by name, "low" and "high" of clip.
Epilogue epilogue_of(const Attributes& attributes);
void write(const Epilogue& epilogue, Attributes& to);

// "residual_scale" and "residual_zero" of a residual that is u8 or i8 instead of f32, f16 or bf16;
// "to_scale", "to_zero" and "to_type" of a quantized result. "to_type" may be f16 or bf16 as well.
QuantParams quant_params_of(const Attributes& attributes);

// "code": one string for each step, like "add 0 2". Throws invalid_argument where one names no
// operator, or a value that is not made yet.
Chain chain_of(const Attributes& attributes, std::size_t inputs);
void write(const Chain& chain, Attributes& to);

}  // namespace sluice::engine
