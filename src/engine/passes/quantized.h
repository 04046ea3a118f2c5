// Recognizes quantized GEMMs and convolutions: DequantizeLinear before, QuantizeLinear after.
#pragma once

#include <optional>

#include "engine/passes/match.h"

namespace sluice::engine {

// The input of a DequantizeLinear with one scale and one zero point.
struct DequantizedValue {
  ValueId value;
  float scale;
  int zero_point;
};
std::optional<DequantizedValue> dequantized_value(const GraphEditor& edit, ValueId value);

// Converts a MatMul or Gemm of quantized x and quantized constant weights to QuantizedLinear;
// kNoNode if it has another form.
NodeId quantized_linear(GraphEditor& edit, NodeId id);

// Whether a node is a 2-D convolution of quantized x, quantized constant weights and constant bias.
bool is_quantized_conv(const GraphEditor& edit, const Node& node);
// The QuantizedConv of such a node, with x still in NCHW, without window and outputs.
Node quantized_conv(GraphEditor& edit, const Node& node);

// Whether a node is the fused operator `op` (Linear or Conv) or its quantized form.
bool is_fused_or_quantized(const Node& node, std::string_view op);
inline bool is_quantized(const Node& node) {
  return node.domain == kFused && node.op.starts_with("Quantized");
}
// Sets input `i` of a node that may have fewer inputs.
void put_input(GraphEditor& edit, NodeId id, std::size_t i, ValueId value);

}  // namespace sluice::engine
