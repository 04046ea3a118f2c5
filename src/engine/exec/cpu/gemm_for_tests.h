// Runs a kernel with weights and its reference operator on the same inputs.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "engine/exec/cpu/backend.h"
#include "engine/ops/op.h"
#include "engine/ops/run_for_tests.h"
#include "kernels/common/targets_for_tests.h"

namespace sluice::engine::cpu {

inline Tensor random_tensor(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1, 1);
  const Tensor tensor(DType::f32, shape);
  for (float& x : tensor.values<float>()) x = value(random);
  return tensor;
}

// One node; with `weights`, inputs 1 and 2 are constants.
struct KernelCase {
  OneNode what;
  std::vector<Tensor> inputs;  // empty: omitted
  bool weights = true;

  Node node() const {
    Node node{.name = "", .op = what.op, .domain = what.domain, .version = what.version};
    for (const auto& [name, value] : what.attributes) node.attributes.set(name, value);
    return node;
  }

  Tensor expected() const {
    class NoSubgraphs final : public SubgraphRunner {
      std::vector<Datum> run(const Graph&, std::span<const Datum>) override { return {}; }
    } subgraphs;
    std::vector<Datum> given;
    for (const Tensor& input : inputs) given.push_back(input ? Datum(input) : Datum());
    std::vector<Datum> outputs(1);
    Node of = node();
    of.outputs = {0};
    compute::Workers workers(2);
    OpCall call(of, given, outputs, workers, subgraphs);
    op_of(of).run(call);
    return outputs[0].tensor;
  }

  // Runs the kernel; the output has `shape`. With `in_place` it overwrites the input that the
  // kernel allows.
  Tensor made(const Shape& shape, int threads, bool in_place = false) const {
    Graph graph;
    Node of = node();
    const auto add = [&](const Tensor& tensor, const Shape& dims, bool constant) {
      Value value{.name = std::to_string(graph.values.size()), .dtype = DType::f32};
      value.dims.emplace();
      for (const std::int64_t size : dims.dims()) value.dims->push_back({size, ""});
      if (constant) value.constant = tensor;
      graph.values.push_back(std::move(value));
      return static_cast<ValueId>(graph.values.size() - 1);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
      of.inputs.push_back(
          !inputs[i] ? kNoValue : add(inputs[i], inputs[i].shape(), weights && (i == 1 || i == 2)));
    of.outputs.push_back(add(Tensor(), shape, false));
    compute::Workers workers(threads);
    Context context(workers);
    const auto kernel = make_kernel(graph, of, context);
    EXPECT_NE(kernel->name(), "operator");
    return run(*kernel, shape, in_place);
  }

 private:
  Tensor run(const Kernel& kernel, const Shape& shape, bool in_place) const {
    std::vector<void*> from;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      from.push_back(inputs[i] && kernel.reads_constant(i) ? inputs[i].data() : nullptr);
    Tensor result(DType::f32, shape);
    if (in_place) {
      const auto place = static_cast<std::size_t>(kernel.in_place());
      EXPECT_LT(place, inputs.size());
      std::copy_n(inputs[place].values<float>().begin(), result.size(),
                  result.values<float>().begin());
      from[place] = result.data();
    }
    const Tensor scratch(DType::u8, {static_cast<std::int64_t>(kernel.scratch())});
    void* to[] = {result.data()};
    kernel.run({.inputs = from, .outputs = to, .scratch = scratch.data()});
    return result;
  }
};

inline void expect_close(const Tensor& made, const Tensor& expected, float tolerance) {
  ASSERT_EQ(made.shape(), expected.shape());
  for (std::int64_t i = 0; i < made.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float is = made.values<float>()[at], should = expected.values<float>()[at];
    ASSERT_NEAR(is, should, tolerance * std::max(1.0f, std::abs(should))) << "at " << i;
  }
}

}  // namespace sluice::engine::cpu
