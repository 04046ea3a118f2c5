// Runs a node by its CPU kernel and by its reference operator.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "engine/exec/cpu/backend.h"
#include "engine/graph/graph_editor.h"
#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine::cpu {

class KernelTest {
 public:
  // An empty Tensor is an omitted input.
  KernelTest(Node node, std::vector<Tensor> inputs, int threads = 2)
      : inputs_(std::move(inputs)), workers_(threads) {
    for (const Tensor& tensor : inputs_) {
      node.inputs.push_back(tensor ? add({tensor.dtype(), tensor.shape()}) : kNoValue);
      if (tensor) graph_.inputs.push_back(node.inputs.back());
    }
    graph_.nodes.push_back(std::move(node));
    expected_ = by_operator();
    graph_.nodes[0].outputs = {add({expected_.dtype(), expected_.shape()})};
    graph_.outputs = graph_.nodes[0].outputs;
    kernel_ = make_kernel(graph_, graph_.nodes[0], context_);
  }

  const Kernel& kernel() const { return *kernel_; }
  const Tensor& expected() const { return expected_; }

  // Runs the kernel; with `in_place` the output overwrites the input.
  Tensor run(bool in_place = false) const {
    std::vector<Tensor> inputs;
    std::vector<void*> from;
    for (const Tensor& tensor : inputs_) {
      inputs.push_back(tensor ? copy(tensor) : tensor);
      from.push_back(inputs.back().data());
    }
    const Tensor out = in_place ? inputs[static_cast<std::size_t>(kernel_->in_place())]
                                : Tensor(expected_.dtype(), expected_.shape());
    const Tensor scratch(DType::u8, {static_cast<std::int64_t>(kernel_->scratch())});
    void* to[] = {out.data()};
    kernel_->run({from, to, scratch.data()});
    return out.reshaped(expected_.shape());
  }

  // The largest difference of any element, relative to max(1, |expected|).
  static double difference(const Tensor& a, const Tensor& expected) {
    double max = 0;
    for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
      const double x = static_cast<double>(a.values<float>()[i]);
      const double y = static_cast<double>(expected.values<float>()[i]);
      if (std::isnan(x) != std::isnan(y)) return HUGE_VAL;
      if (x != y && !std::isnan(x))
        max = std::max(max, std::fabs(x - y) / std::max(1.0, std::fabs(y)));
    }
    return max;
  }
  double difference() const { return difference(run(), expected_); }

 private:
  ValueId add(const TensorType& type) {
    Value value{.name = std::to_string(graph_.values.size()), .dtype = type.dtype};
    value.dims.emplace();
    for (const std::int64_t dim : type.shape) value.dims->push_back({dim, ""});
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  static Tensor copy(const Tensor& from) {
    const Tensor to(from.dtype(), from.shape());
    std::copy_n(static_cast<const std::byte*>(from.data()), from.bytes(),
                static_cast<std::byte*>(to.data()));
    return to;
  }

  Tensor by_operator() {
    class NoSubgraphs final : public SubgraphRunner {
      std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
    } subgraphs;
    std::vector<Datum> given, outputs(1);
    for (const Tensor& tensor : inputs_) given.push_back(tensor ? Datum(tensor) : Datum());
    Node node = graph_.nodes[0];
    node.outputs = {0};
    OpCall call(node, given, outputs, workers_, subgraphs);
    op_of(node).run(call);
    return outputs[0].tensor;
  }

  std::vector<Tensor> inputs_;
  compute::Workers workers_;
  Context context_{workers_};
  Graph graph_;
  Tensor expected_;
  std::unique_ptr<Kernel> kernel_;
};

inline Node fused_node(std::string op, std::vector<std::pair<std::string, Attributes::Any>> with) {
  Node node = fused(std::move(op), "", {}, {});
  for (auto& [name, value] : with) node.attributes.set(name, std::move(value));
  return node;
}

inline Node onnx_node(std::string op, int version,
                      std::vector<std::pair<std::string, Attributes::Any>> with = {}) {
  Node node{.name = "", .op = std::move(op), .domain = "", .version = version};
  for (auto& [name, value] : with) node.attributes.set(name, std::move(value));
  return node;
}

}  // namespace sluice::engine::cpu
