// A model as the engine sees it: values, and nodes that make them, each after those it needs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/attributes.h"

namespace sluice::engine {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;  // an input or output that is left out

struct Dim {
  std::int64_t size = -1;  // -1: known when it runs
  std::string symbol;      // equal names are equal sizes
};

struct Value {
  std::string name;
  onnx::Type::Kind kind = onnx::Type::Kind::tensor;
  DType dtype = DType::none;               // none: not known
  std::optional<std::vector<Dim>> dims{};  // none: not known
  Tensor constant{};                       // of an initializer
};

struct Graph;

struct Node {
  std::string name, op, domain;
  int version = 0;  // of the operator's domain that the model asks for
  Attributes attributes{};
  std::vector<ValueId> inputs{}, outputs{};
  std::vector<std::pair<std::string, std::shared_ptr<const Graph>>> bodies{};  // by attribute

  const Graph* body(std::string_view attribute) const;
};

// "MatMul node 'encoder/query'".
std::string describe(const Node& node);

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;

  // Of a body: what it uses of the graph around it, as a value there and here.
  struct Captured {
    ValueId outside, here;
  };
  std::vector<Captured> captured;

  Value& operator[](ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& operator[](ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

// Makes a graph of a file: names resolved, nodes put in order, functions put in their place.
// Throws invalid_argument with node and reason: a value nobody makes or two make, a cycle,
// an opset or IR that is not known, a function that calls itself.
Graph import_onnx(const onnx::Model& model);

// What a node is called in profiles: its name, or its operator where it has none.
inline const char* name_of(const Node& node) {
  return (node.name.empty() ? node.op : node.name).c_str();
}

}  // namespace sluice::engine
