#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cpu/cpu_program.h"
#include "engine/graph/fused_ops.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/passes/passes.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

class PrecisionTest : public testing::Test {
 protected:
  Graph narrow(const Graph& graph, const std::vector<Tensor>& inputs, DType to = DType::f16) {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) types.push_back({input.dtype(), input.shape()});
    Graph made = specialize(graph, types, workers);
    GraphEditor edit(made);
    edit.finish();
    changes = to_precision(edit, to);
    edit.finish();
    return made;
  }
  Tensor run(Graph graph, const std::vector<Tensor>& inputs) {
    return CpuProgram(std::move(graph), std::make_shared<cpu::Context>(workers)).run(inputs)[0];
  }
  static const Node& only(const Graph& graph, std::string_view op) {
    const Node* found = nullptr;
    for (const Node& node : graph.nodes)
      if (node.op == op) found = &node;
    if (found == nullptr) throw Error(Code::not_found, std::string(op));
    return *found;
  }

  compute::Workers workers{2};
  int changes = 0;
};

TEST_F(PrecisionTest, WeightsAndIntermediatesAreNarrowedAndGraphEndsAreNot) {
  for (const DType to : {DType::f16, DType::bf16}) {
    GraphBuilder b;
    const ValueId x = b.input("x");
    const ValueId hidden = b.node("Tanh", {b.node("MatMul", {x, b.constant(varied({8, 16}, 2))})});
    const Graph graph = b.output(b.node("MatMul", {hidden, b.constant(varied({16, 4}, 3))})).take();
    const std::string name = graph[graph.outputs[0]].name;
    const std::vector<Tensor> inputs{varied({5, 8}, 1)};
    const Graph made = narrow(graph, inputs, to);
    EXPECT_EQ(changes, 3);
    EXPECT_EQ(type_of(made[made.inputs[0]]).dtype, DType::f32);
    EXPECT_EQ(type_of(made[made.outputs[0]]).dtype, DType::f32);
    EXPECT_EQ(made[made.outputs[0]].name, name);
    EXPECT_EQ(type_of(made[only(made, "Tanh").outputs[0]]).dtype, to);
    EXPECT_EQ(made[only(made, "MatMul").inputs[1]].constant.dtype(), to);
    const Tensor got = run(made, inputs),
                 want =
                     run(specialize(graph, std::vector<TensorType>{{DType::f32, {5, 8}}}, workers),
                         inputs);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NEAR(got.values<float>()[i], want.values<float>()[i], to == DType::f16 ? 4e-3 : 4e-2);
  }
}

TEST_F(PrecisionTest, LowestMaskValueStaysFiniteAndInfinityStaysInfinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  GraphBuilder b;
  const ValueId x = b.input("x");
  const Tensor mask = tensor_of<float>({3}, {-3.4028235e38f, -infinity, 0});
  const Graph graph = b.output(b.node("Add", {x, b.constant(mask)})).take();
  const Tensor got =
      run(narrow(graph, {tensor_of<float>({3}, {1, 2, 3})}), {tensor_of<float>({3}, {1, 2, 3})});
  EXPECT_THAT(list_of<float>(got), testing::ElementsAre(-65504.0f, -infinity, 3.0f));
}

TEST_F(PrecisionTest, NumbersInsideAChainStayFiniteToo) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  Attributes attributes;
  write(Chain{.inputs = 1,
              .instructions = {{Chain::Op::constant, -1, -1, -3.4028235e38f},
                               {Chain::Op::multiply, 0, 1, 0}}},
        attributes);
  const Graph graph =
      b.output(b.node("Chain", {x}, {{"code", attributes.strings("code")}}, "sluice")).take();
  const std::vector<Tensor> inputs{tensor_of<float>({2}, {1, 0})};
  EXPECT_THAT(list_of<float>(run(narrow(graph, inputs), inputs)),
              testing::ElementsAre(-65504.0f, -0.0f));
}

TEST_F(PrecisionTest, UnderflowingConstantsKeepTheirOperatorInF32) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId min = b.node("Max", {x, b.constant(Tensor::of(1e-9f))});
  const Graph graph = b.output(b.node("Relu", {min})).take();
  const Graph made = narrow(graph, {varied({4}, 1)});
  EXPECT_EQ(type_of(made[only(made, "Max").outputs[0]]).dtype, DType::f32);
  EXPECT_EQ(type_of(made[only(made, "Relu").outputs[0]]).dtype, DType::f16);
}

TEST_F(PrecisionTest, IntegersAreUnchangedAndCastsFromThemAreNarrowed) {
  GraphBuilder b;
  const ValueId ids = b.input("ids", DType::i64);
  const ValueId rows = b.node("Gather", {b.constant(varied({9, 4}, 2)), ids});
  const ValueId real =
      b.node("Cast", {b.node("Unsqueeze", {ids, b.integers({1})})}, {{"to", std::int64_t{1}}});
  const Graph graph = b.output(b.node("Mul", {rows, real})).take();
  const std::vector<Tensor> inputs{tensor_of<std::int64_t>({3}, {1, 8, 4})};
  const Graph made = narrow(graph, inputs);
  EXPECT_EQ(type_of(made[made.inputs[0]]).dtype, DType::i64);
  EXPECT_EQ(type_of(made[only(made, "Gather").outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(made.nodes.size(), 5u);  // one cast for the mask, one at the end
  const Tensor got = run(made, inputs);
  EXPECT_NEAR(got.values<float>()[4], 8 * varied({9, 4}, 2).values<float>()[32], 8e-3);
}

TEST_F(PrecisionTest, OperatorsThatNeedTheRangeStayF32BetweenCasts) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId big = b.node("Exp", {b.node("Relu", {x})});
  const ValueId small = b.node("Log", {big});
  const Graph graph = b.output(b.node("Relu", {small})).take();
  const std::vector<Tensor> inputs{tensor_of<float>({2}, {20, 1})};  // e^20 is past f16
  const Graph made = narrow(graph, inputs);
  EXPECT_EQ(type_of(made[only(made, "Exp").outputs[0]]).dtype, DType::f32);
  EXPECT_THAT(list_of<float>(run(made, inputs)), testing::ElementsAre(20.0f, 1.0f));
}

TEST_F(PrecisionTest, OutputsUsedInsideAreNarrowedThere) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId y = b.node("Relu", {x}), z = b.node("Tanh", {y});
  const Graph made = narrow(b.output(y).output(z).take(), {varied({4}, 1)});
  EXPECT_EQ(type_of(made[made.outputs[0]]).dtype, DType::f32);
  EXPECT_EQ(type_of(made[only(made, "Tanh").inputs[0]]).dtype, DType::f16);
}

TEST_F(PrecisionTest, ResizeScalesStayF32) {
  GraphBuilder b(19);
  const ValueId x = b.input("x");
  const ValueId scales = b.constant(tensor_of<float>({4}, {1, 1, 2, 2}));
  const Graph graph = b.output(b.node("Resize", {x, kNoValue, scales})).take();
  const std::vector<Tensor> inputs{varied({1, 2, 3, 3}, 1)};
  const Graph made = narrow(graph, inputs);
  EXPECT_EQ(made[only(made, "Resize").inputs[2]].constant.dtype(), DType::f32);
  EXPECT_EQ(type_of(made[only(made, "Resize").outputs[0]]).dtype, DType::f16);
  EXPECT_EQ(run(made, inputs).shape(), Shape({1, 2, 6, 6}));
}

// Quantizes x with scale 0.01 around 100.
ValueId in_steps(GraphBuilder& b, ValueId x) {
  return b.node("QuantizeLinear",
                {x, b.constant(Tensor::of(0.01f)), b.constant(Tensor::of(std::uint8_t{100}))});
}
std::ptrdiff_t casts(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return node.op == "Cast"; });
}

TEST_F(PrecisionTest, InputsThatAreOnlyQuantizedAreNotNarrowed) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const Graph graph = b.output(in_steps(b, x)).output(in_steps(b, x)).take();
  const std::vector<Tensor> inputs{tensor_of<float>({2}, {1.0052f, -0.5f})};  // in f16: 1.00488
  const Graph made = narrow(graph, inputs);
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(casts(made), 0);
  EXPECT_EQ(only(made, "QuantizeLinear").inputs[0], made.inputs[0]);
  EXPECT_THAT(list_of<std::uint8_t>(run(made, inputs)), testing::ElementsAre(201, 50));
}

TEST_F(PrecisionTest, ResultsOfF32OperatorsAreQuantizedDirectly) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const Graph graph = b.output(in_steps(b, b.node("Exp", {b.node("Relu", {x})}))).take();
  const Graph made = narrow(graph, {varied({4}, 1)});
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(type_of(made[only(made, "QuantizeLinear").inputs[0]]).dtype, DType::f32);
}

TEST_F(PrecisionTest, NarrowedValuesAreQuantizedDirectly) {
  for (const bool quantized_first : {false, true}) {
    GraphBuilder b;
    const ValueId x = b.input("x");
    const ValueId first = quantized_first ? in_steps(b, x) : b.node("Relu", {x});
    const ValueId second = quantized_first ? b.node("Relu", {x}) : in_steps(b, x);
    const ValueId third = in_steps(b, b.node("Tanh", {quantized_first ? second : first}));
    const Graph made =
        narrow(b.output(first).output(second).output(third).take(), {varied({4}, 1)});
    EXPECT_EQ(changes, 4);
    EXPECT_EQ(casts(made), 2);  // of x, and of what Relu gives out
    for (const Node& node : made.nodes)
      if (node.op == "QuantizeLinear") {
        EXPECT_EQ(type_of(made[node.inputs[0]]).dtype, DType::f16);
        EXPECT_EQ(type_of(made[node.inputs[1]]).dtype, DType::f32);
      }
  }
}

}  // namespace
}  // namespace sluice::engine
