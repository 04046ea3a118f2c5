// Helpers to read a node's inputs and a kernel's arguments.
#pragma once

#include "engine/exec/kernel.h"
#include "engine/graph/graph_editor.h"

namespace sluice::engine::cpu {

// The type of input i; dtype none if it is omitted.
inline TensorType input_type(const Graph& graph, const Node& node, std::size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return {};
  return type_of(graph[node.inputs[i]]);
}

inline bool is_f32(const TensorType& type) { return type.dtype == DType::f32; }

// Input i if it is a constant, else an empty Tensor.
inline Tensor constant(const Graph& graph, const Node& node, std::size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return {};
  return graph[node.inputs[i]].constant;
}

// Null if the input is omitted.
inline const float* floats(const KernelArgs& args, std::size_t input) {
  return input < args.inputs.size() ? static_cast<const float*>(args.inputs[input]) : nullptr;
}

}  // namespace sluice::engine::cpu
