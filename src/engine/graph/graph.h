// The graph of a model: values, and nodes in topological order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/attributes.h"

namespace sluice::engine {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;  // an omitted input or output

// Where a list of all values, or of all nodes, has this one.
inline std::size_t index_of(int id) { return static_cast<std::size_t>(id); }

struct Dim {
  std::int64_t size = -1;  // -1: dynamic
  std::string symbol;      // dimensions with equal names have equal sizes
};

struct Value {
  std::string name;
  onnx::Type::Kind kind = onnx::Type::Kind::tensor;
  DType dtype = DType::none;               // none: unknown
  std::optional<std::vector<Dim>> dims{};  // none: unknown
  Tensor constant{};                       // set for initializers
};

struct Graph;

struct Node {
  std::string name, op, domain;
  int version = 0;  // opset version of the domain that the model imports
  Attributes attributes{};
  std::vector<ValueId> inputs{}, outputs{};
  std::vector<std::pair<std::string, std::shared_ptr<const Graph>>>
      subgraphs{};  // by attribute name

  const Graph* subgraph(std::string_view attribute) const;
};

// "MatMul node 'encoder/query'".
std::string describe(const Node& node);

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;

  // For subgraphs: the values captured from the enclosing graph.
  struct Captured {
    ValueId outer, inner;
  };
  std::vector<Captured> captured;

  Value& operator[](ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& operator[](ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

// Builds the graph of a model file: resolves names, sorts nodes topologically and inlines
// functions. Throws invalid_argument with node and reason for a value with no or two producers, a
// cycle, an unknown opset or IR version, or a recursive function.
Graph import_onnx(const onnx::Model& model);

// The name of a node in profiles: its own, or its operator if it has none.
inline const char* name_of(const Node& node) {
  return (node.name.empty() ? node.op : node.name).c_str();
}

}  // namespace sluice::engine
