// What the passes have in common: reading what a node says, and putting new nodes and constants
// in the place of old ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine {

using Order = std::vector<int>;  // of axes, as Transpose has it

// What the fused operators take: computed in float.
inline bool is_fusable(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

inline bool has_input(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

// A node of ONNX; of two inputs only where they stretch to each other as NumPy's do.
bool is_onnx(const Node& node, std::string_view op);

// Of a node with two inputs, one of them a constant number, that keeps the other's type.
struct WithNumber {
  ValueId value;
  float number;
  bool number_first;
};
std::optional<WithNumber> with_number(const Editor& edit, NodeId id);

// value * by or value / by, as a factor.
std::optional<WithNumber> scaled(const Editor& edit, NodeId id);

// The input of a node with two that is not `value`.
ValueId other_input(const Node& node, ValueId value);

// All numbers of a constant list; none where the input is no such.
std::optional<std::vector<std::int64_t>> integers(const Editor& edit, ValueId value);
// A list that older versions have as an attribute and newer ones as an input.
std::optional<std::vector<std::int64_t>> list_of(const Editor& edit, NodeId id, std::size_t input,
                                                 std::string_view attribute);

// The axes of a Transpose.
Order order_of(const Editor& edit, NodeId transpose);
// Of turning by `first`, then by `second`.
Order composed(const Order& first, const Order& second);
Shape permuted(const Shape& shape, const Order& order);

// What a node with one input applies to each element, if an epilogue can.
std::optional<Epilogue> epilogue_of(const Editor& edit, NodeId id);
// The bounds of a Clip; none where they are not constant.
struct Bounds {
  std::optional<float> low, high;
};
std::optional<Bounds> bounds_of(const Editor& edit, NodeId clip);

// A new node that makes what `old` made in output 0; `old` and what only it used are gone.
NodeId put(Editor& edit, NodeId old, Node node);
// A node whose outputs nobody uses any more, and what only it used.
void drop(Editor& edit, NodeId id);
// Whoever used what `id` makes uses `to`; `id` is gone.
void bypass(Editor& edit, NodeId id, ValueId to);

// The value in another shape or order: a constant of its own where it is constant, a node's
// output otherwise; the value itself where nothing changes.
ValueId reshaped(Editor& edit, ValueId value, const Shape& shape);
ValueId transposed(Editor& edit, ValueId value, const Order& order);
Node reshape_node(Editor& edit, std::string name, ValueId from, ValueId to);
Node transpose_node(std::string name, ValueId from, ValueId to, const Order& order);

inline ValueId derived(Editor& edit, const std::vector<ValueId>& from, const std::string& way,
                       const std::function<Tensor()>& make) {
  return edit.derive(from, way, make);
}

// A number as text that says all of it.
std::string exact(float number);

std::vector<float> numbers(const Tensor& tensor);
Tensor tensor_of(const std::vector<float>& numbers, DType dtype, const Shape& shape);

}  // namespace sluice::engine
