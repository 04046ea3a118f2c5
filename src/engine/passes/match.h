// Helpers of the passes: matching nodes, and replacing nodes and constants.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine {

using Order = std::vector<int>;  // a permutation of axes, as in Transpose

// The element types of the fused operators.
inline bool is_fusable(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

inline bool has_input(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

// Whether a node is this ONNX operator; binary operators only with NumPy broadcasting.
bool is_onnx(const Node& node, std::string_view op);

// A binary node with one constant scalar that keeps the type of the other input.
struct ScalarOperand {
  ValueId value;
  double scalar;
  bool scalar_first;
};
std::optional<ScalarOperand> scalar_operand(const GraphEditor& edit, NodeId id);

// Matches value * factor or value / divisor, as a factor.
std::optional<ScalarOperand> scaled(const GraphEditor& edit, NodeId id);

// The other input of a binary node.
ValueId other_input(const Node& node, ValueId value);

// The elements of a constant integer list; none if the input is not constant.
std::optional<std::vector<std::int64_t>> integers(const GraphEditor& edit, ValueId value);
// A list that is an attribute in older opsets and an input in newer ones.
std::optional<std::vector<std::int64_t>> list_of(const GraphEditor& edit, NodeId id,
                                                 std::size_t input, std::string_view attribute);

// The permutation of a Transpose.
Order order_of(const GraphEditor& edit, NodeId transpose);
// The composition of two permutations, `first` applied first.
Order composed(const Order& first, const Order& second);
Shape permuted(const Shape& shape, const Order& order);

// The epilogue equivalent to a unary node, if there is one.
std::optional<ActivationParams> activation_params_of(const GraphEditor& edit, NodeId id);
// The bounds of a Clip; none if they are not constant.
struct Bounds {
  std::optional<float> low, high;
};
std::optional<Bounds> bounds_of(const GraphEditor& edit, NodeId clip);

// Replaces `old` by a new node with the same output 0; removes `old` and its dead inputs.
NodeId replace_node(GraphEditor& edit, NodeId old, Node node);
// Removes a dead node and its dead inputs.
void remove_dead_node(GraphEditor& edit, NodeId id);
// Replaces all uses of the output of `id` by `to`, and removes `id`.
void bypass(GraphEditor& edit, NodeId id, ValueId to);

// The value reshaped or transposed: a derived constant if it is constant, else the output of a new
// node; the value itself if nothing changes.
ValueId reshaped(GraphEditor& edit, ValueId value, const Shape& shape);
ValueId transposed(GraphEditor& edit, ValueId value, const Order& order);
Node reshape_node(GraphEditor& edit, std::string name, ValueId from, ValueId to);
Node transpose_node(std::string name, ValueId from, ValueId to, const Order& order);

inline ValueId derived(GraphEditor& edit, const std::vector<ValueId>& from, const std::string& key,
                       const std::function<Tensor()>& make) {
  return edit.derive(from, key, make);
}

// The exact text of a number.
std::string exact(float number);

std::vector<float> numbers(const Tensor& tensor);
Tensor tensor_of(const std::vector<float>& numbers, DType dtype, const Shape& shape);

}  // namespace sluice::engine
