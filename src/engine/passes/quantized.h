// Products and convolutions of small numbers, as models have them: DequantizeLinear before, and
// QuantizeLinear behind.
#pragma once

#include <optional>

#include "engine/passes/match.h"

namespace sluice::engine {

// What DequantizeLinear makes wide: small numbers with one scale and one zero.
struct SmallValue {
  ValueId value;
  float scale;
  int zero;
};
std::optional<SmallValue> small_value(const Editor& edit, ValueId wide);

// A MatMul or Gemm of small x and small constant weights as QuantizedLinear; kNoNode where it is
// none.
NodeId quantized_linear(Editor& edit, NodeId id);

// A convolution of an image with small x and small constant weights, and a constant bias.
bool is_quantized_conv(const Editor& edit, const Node& node);
// Its QuantizedConv, with x still in the order of ONNX, and neither window nor outputs. Where
// it is_quantized_conv.
Node quantized_conv(Editor& edit, const Node& node);

// Linear or Conv, of small numbers or not.
bool is_fused_product(const Node& node, std::string_view op);
inline bool is_quantized(const Node& node) {
  return node.domain == kFused && node.op.starts_with("Quantized");
}
// Input `i` of a node that may have fewer.
void put_input(Editor& edit, NodeId id, std::size_t i, ValueId value);

}  // namespace sluice::engine
