// Builds models node by node, and compares them with their optimized form, for tests of passes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/ops/one_op_for_tests.h"
#include "engine/ops/op.h"
#include "engine/passes/passes.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {

class Model {
 public:
  explicit Model(int version = 17) : version_(version) {}

  ValueId input(const Tensor& tensor) {
    graph.inputs.push_back(value());
    given.push_back(tensor);
    return graph.inputs.back();
  }
  ValueId constant(const Tensor& tensor) {
    const ValueId id = value();
    graph[id].dtype = tensor.dtype();
    graph[id].constant = tensor;
    return id;
  }
  ValueId number(float x) { return constant(Tensor::of(x)); }
  ValueId list(const std::vector<std::int64_t>& numbers) {
    return constant(Tensor::of(std::span<const std::int64_t>(numbers)));
  }
  // Distinct weights with magnitudes up to `max`.
  ValueId weights(const Shape& shape, float max = 0.5f) {
    const Tensor tensor = varied(shape, ++seed_);
    for (float& x : tensor.values<float>()) x *= max;
    return constant(tensor);
  }
  using Settings = std::vector<std::pair<std::string, Attributes::Any>>;
  ValueId op(std::string name, std::vector<ValueId> inputs, const Settings& settings = {}) {
    return many(std::move(name), std::move(inputs), 1, settings)[0];
  }
  std::vector<ValueId> many(std::string name, std::vector<ValueId> inputs, int outputs,
                            const Settings& settings = {}) {
    Node node{.name = name + std::to_string(graph.nodes.size()),
              .op = name,
              .domain = "",
              .version = version_};
    for (const auto& [key, setting] : settings) node.attributes.set(key, setting);
    node.inputs = std::move(inputs);
    for (int i = 0; i < outputs; ++i) node.outputs.push_back(value());
    graph.nodes.push_back(node);
    return node.outputs;
  }
  void output(ValueId id) { graph.outputs.push_back(id); }

  Graph graph;
  std::vector<Tensor> given;

 private:
  ValueId value() {
    graph.values.push_back({.name = "v" + std::to_string(graph.values.size())});
    return static_cast<ValueId>(graph.values.size() - 1);
  }

  int version_;
  unsigned seed_ = 100;
};

class NoSubgraphsForTests final : public SubgraphRunner {
 public:
  std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
};

// Runs a graph node by node, independent of the code under test.
inline std::vector<Tensor> run_plainly(const Graph& graph, const std::vector<Tensor>& given) {
  compute::Workers workers(1);
  std::vector<Datum> values(graph.values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (graph.values[i].constant) values[i] = graph.values[i].constant;
  const auto at = [&](ValueId id) -> Datum& { return values[static_cast<std::size_t>(id)]; };
  for (std::size_t i = 0; i < given.size(); ++i) at(graph.inputs[i]) = given[i];
  for (const Node& node : graph.nodes) {
    std::vector<Datum> inputs, outputs(node.outputs.size());
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? Datum() : at(id));
    NoSubgraphsForTests none;
    OpCall call(node, inputs, outputs, workers, none);
    op_of(node).run(call);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (node.outputs[k] == kNoValue) continue;
      EXPECT_TRUE((TensorType{outputs[k].tensor.dtype(), outputs[k].tensor.shape()} ==
                   type_of(graph[node.outputs[k]])))
          << describe(node) << " made " << to_string(outputs[k].tensor.shape());
      at(node.outputs[k]) = outputs[k];
    }
  }
  std::vector<Tensor> results;
  for (const ValueId id : graph.outputs) results.push_back(at(id).tensor);
  return results;
}

inline void expect_near(const Tensor& got, const Tensor& want, float max) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(to_string(got.shape()), to_string(want.shape()));
  const auto a = got.values<float>(), b = want.values<float>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(b[i]) && std::isnan(a[i])) continue;
    if (a[i] == b[i]) continue;  // infinite
    ASSERT_NEAR(a[i], b[i], max * (1 + std::abs(b[i]))) << "at " << i;
  }
}

// Optimizes a model, checks that it computes the same, and returns its operators without views.
inline std::vector<std::string> optimized_ops(const Model& model, Graph* made = nullptr,
                                              Backend backend = Backend::cpu) {
  compute::Workers workers(1);
  std::vector<TensorType> types;
  for (const Tensor& tensor : model.given) types.push_back({tensor.dtype(), tensor.shape()});
  Graph graph = specialize(model.graph, types, workers);
  const std::vector<Tensor> want = run_plainly(graph, model.given);
  optimize(graph, nullptr, backend);
  const std::vector<Tensor> got = run_plainly(graph, model.given);
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], 1e-4f);
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes)
    if (node.op != "Reshape")
      ops.push_back(node.domain.empty() ? node.op : node.domain + "." + node.op);
  if (made != nullptr) *made = std::move(graph);
  return ops;
}

}  // namespace sluice::engine
