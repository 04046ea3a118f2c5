// Runs a single operator, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/session/session.h"

namespace sluice::engine {

struct OneNode {
  std::string op;
  int version = 21;
  std::vector<std::pair<std::string, Attributes::Any>> attributes{};
  int outputs = 1;
  std::string domain{};
};

// Returns the outputs. An input Datum() is omitted.
inline std::vector<Datum> run_alone(const OneNode& what, const std::vector<Datum>& inputs) {
  Graph graph;
  Node node{.name = "", .op = what.op, .domain = what.domain, .version = what.version};
  for (const auto& [name, value] : what.attributes) node.attributes.set(name, value);
  std::vector<Datum> given;
  const auto add = [&](std::vector<ValueId>& list) {
    list.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back({.name = std::to_string(graph.values.size())});
    return list.back();
  };
  for (const Datum& input : inputs) {
    if (!input) {
      node.inputs.push_back(kNoValue);
      continue;
    }
    graph.inputs.push_back(add(node.inputs));
    given.push_back(input);
  }
  for (int i = 0; i < what.outputs; ++i) graph.outputs.push_back(add(node.outputs));
  graph.nodes.push_back(std::move(node));
  compute::Workers workers(2);
  return Session(std::move(graph), workers).run(given);
}

inline Tensor run_one(const OneNode& what, const std::vector<Datum>& inputs) {
  return run_alone(what, inputs)[0].tensor;
}

// The error, or "accepted".
inline std::string refusal(const OneNode& what, const std::vector<Datum>& inputs) {
  try {
    run_alone(what, inputs);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

template <class T>
Tensor tensor_of(const Shape& shape, std::vector<T> values) {
  const Tensor tensor(kDTypeOf<T>, shape);
  std::copy(values.begin(), values.end(), tensor.values<T>().begin());
  return tensor;
}

template <class T>
std::vector<T> list_of(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

}  // namespace sluice::engine
