// The fused operators (domain "sluice"). Each also has a plain CPU implementation (ops/fused),
// which is the reference for every faster kernel.
//
//   Linear     x [..., k], w [k, n], bias? [n], residual? [..., n]
//              -> activation(x * w + bias) + residual
//              activation
//   Attention  q, k, v [batch, length, heads * size], mask? (added to the scores, broadcast to
//              [batch, heads, queries, keys]) -> [batch, queries, heads * size]
//              heads, scale; packed = 1: q holds Q, K and V, [batch, length, 3 * heads * size],
//              and k and v are omitted
//              cu_seqlens? i32 [sequences + 1], without a mask: varlen attention. The batch is one
//              entry with the sequences packed one after the other, sequence i in
//              [cu_seqlens[i], cu_seqlens[i + 1]), each of at most `max_seqlen` tokens. Tokens
//              attend within their sequence only; tokens outside all sequences become zeros
//   PadTokens  x [1, tokens, ...], token_index i32 [batch, length] -> [batch, length, ...]
//              token token_index[b, l], or zeros if that is >= tokens
//   PoolTokens x [1, tokens, n], cu_seqlens i32 [sequences + 1] -> [sequences, n]
//              the sum, mean, first or last of each sequence's tokens; zeros if it has none
//              pooling; normalize = 1: divided by the L2 norm
//   Norm       x [..., n], residual? [..., n], scale [n], bias? [n]
//              -> layer normalization of x + residual along the last axis, scaled and shifted;
//              an optional second output is the first one quantized, by QuantParams
//              epsilon
//   Conv       x [batch, height, width, in], w [out, in / group, rows, columns], bias? [out],
//              residual? [batch, height, width, out] -> activation(conv + bias + residual)
//              strides, dilations [2]; pads [4]: top, left, bottom, right; group; activation
//   MaxPool, AveragePool
//              x [batch, height, width, channels]; MaxPool also takes u8 or i8
//              kernel, strides, dilations [2]; pads [4]; count_include_pad for AveragePool
//   QuantizedLinear
//              x u8, i8 or f8e4m3 [..., k], w i8 or f8e4m3 [k, n], bias? f32 [n],
//              residual? [..., n], scale f32 [n]
//              -> activation((x - zero) * w * scale + bias) + residual
//              zero, activation; see QuantParams for a quantized result and residual
//   QuantizedConv
//              x u8 or i8 [batch, height, width, in], w i8 [out, in, rows, columns], bias? f32
//              [out], residual? [batch, height, width, out], scale f32 [out]
//              -> activation(conv(x - zero, w) * scale + bias + residual)
//              attributes of Conv with group 1, and of QuantizedLinear
//   Chain      inputs of one element type, broadcast to one shape -> the same type
//              code: the instructions, see chain_of()
#pragma once

#include <cstddef>

#include "engine/graph/attributes.h"
#include "kernels/common/activation_params.h"
#include "kernels/common/quant_params.h"
#include "kernels/elementwise/chain.h"
#include "kernels/reduce/pool_tokens.h"

namespace sluice::engine {

using kernels::Activation;
using kernels::activation_named;
using kernels::ActivationParams;
using kernels::Chain;
using kernels::QuantParams;
using kernels::to_string;

// Reads "activation" by name, and "low" and "high" for clip.
ActivationParams activation_params_of(const Attributes& attributes);
void write(const ActivationParams& activation, Attributes& to);

// Reads "residual_scale" and "residual_zero" for a residual that is u8 or i8 instead of f32, f16 or
// bf16, and "to_scale", "to_zero" and "to_type" for a quantized result. "to_type" may also be f16
// or bf16.
QuantParams quant_params_of(const Attributes& attributes);

// Reads "pooling".
kernels::TokenPooling token_pooling_of(const Attributes& attributes);

// Reads "code": one string per instruction, such as "add 0 2". Throws invalid_argument if one names
// an unknown operator, or a value that is not computed yet.
Chain chain_of(const Attributes& attributes, std::size_t inputs);
void write(const Chain& chain, Attributes& to);

}  // namespace sluice::engine
