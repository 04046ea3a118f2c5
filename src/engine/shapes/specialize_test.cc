#include "engine/shapes/specialize.h"

#include <gmock/gmock.h>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/passes/constant_folding.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) all.push_back(node.op);
  return all;
}

// A subgraph of one node on a captured value and an optional constant.
std::shared_ptr<const Graph> branch(const std::string& op, ValueId outside, float number) {
  GraphBuilder b;
  const ValueId x = b.input("captured");
  Graph body = b.output(b.node(op, {x, b.constant(Tensor::of<float>(number))})).take();
  body.inputs.clear();
  body.captured.push_back({.outer = outside, .inner = x});
  return std::make_shared<const Graph>(std::move(body));
}

// y = relu(condition ? x + 2 : x * 3).
Graph chooses(const std::function<ValueId(GraphBuilder&)>& condition) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId made = b.node("If", {condition(b)});
  Graph graph = b.output(b.node("Relu", {made})).take();
  for (Node& node : graph.nodes)
    if (node.op == "If")
      node.subgraphs = {{"then_branch", branch("Add", x, 2)}, {"else_branch", branch("Mul", x, 3)}};
  return graph;
}

TEST(SpecializeTest, ConstantBranchesAreInlined) {
  compute::Workers workers(1);
  const TensorType type{DType::f32, {4}};
  const auto given = [](bool which) {
    return [which](GraphBuilder& b) { return b.constant(Tensor::of<bool>(which)); };
  };
  for (const bool which : {true, false}) {
    const Graph graph = chooses(given(which));
    const Graph special = specialize(graph, std::span(&type, 1), workers);
    EXPECT_THAT(operators(special),
                testing::ElementsAre(which ? "Add" : "Mul", "Identity", "Relu"));
    const Session compiled(graph, workers), plain(graph, workers, {.compile = false});
    EXPECT_TRUE(compiled.compiled(std::span(&type, 1)).program);
    const Datum x(varied({4}, 3));
    EXPECT_EQ(list_of<float>(compiled.run(std::span(&x, 1))[0].tensor),
              list_of<float>(plain.run(std::span(&x, 1))[0].tensor));
  }
}

TEST(SpecializeTest, DataDependentConditionsRunInTheInterpreter) {
  compute::Workers workers(1);
  const Graph graph = chooses([](GraphBuilder& b) { return b.input("which", DType::boolean); });
  const TensorType types[] = {{DType::f32, {4}}, {DType::boolean, {}}};
  EXPECT_THROW(specialize(graph, types, workers), Error);
}

TEST(SpecializeTest, ChoicesWithoutAConditionAreRefused) {
  compute::Workers workers(1);
  const TensorType type{DType::f32, {4}};
  const Graph graph = chooses([](GraphBuilder&) { return kNoValue; });
  EXPECT_THROW(specialize(graph, std::span(&type, 1), workers), Error);
}

// Otherwise loading a plan would take longer than compiling it; this one would take hours.
TEST(SpecializeTest, TypeInferenceOfFusedNodesComputesNothing) {
  compute::Workers workers(1);
  GraphBuilder b;
  const ValueId x = b.input("x");
  ValueId y = b.node("Conv", {x, b.constant(varied({64, 64, 3, 3}))},
                     {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}, "sluice");
  y = b.node("Linear", {y, b.constant(varied({64, 96}))}, {}, "sluice");
  y = b.node("Norm", {y, kNoValue, b.constant(varied({96}))}, {}, "sluice");
  Graph graph = b.output(y).take();
  for (Node& node : graph.nodes) node.version = 1;
  const TensorType type{DType::f32, {256, 1024, 1024, 64}};
  const Graph special = specialize(graph, std::span(&type, 1), workers);
  EXPECT_EQ(type_of(special[special.outputs[0]]).shape, (Shape{256, 1024, 1024, 96}));
}

TEST(SpecializeTest, TypeInferenceOfQuantizedNodesComputesNothing) {
  compute::Workers workers(1);
  GraphBuilder b;
  const ValueId x = b.input("x", DType::u8), scale = b.constant(varied({1024}));
  const ValueId w = b.constant(Tensor(DType::i8, {1024, 1024}));
  ValueId y = b.node("MaxPool", {x}, {{"kernel_shape", std::vector<std::int64_t>{1, 1}}});
  y = b.node("QuantizedLinear", {y, w, kNoValue, y, scale}, {}, "sluice");
  const ValueId one = b.constant(Tensor::of(1.0f)), zero = b.constant(Tensor::of(std::uint8_t{0}));
  const ValueId w_zero = b.constant(Tensor::of(std::int8_t{0}));
  y = b.node("DynamicQuantizeLinear", {y});
  y = b.node("QLinearMatMul", {y, one, zero, w, one, w_zero, one, zero});
  y = b.node("MatMulInteger", {y, w});
  const Graph graph = b.output(y).take();
  const TensorType type{DType::u8, {2048, 64, 1024, 1024}};
  const Graph special = specialize(graph, std::span(&type, 1), workers);
  EXPECT_EQ(type_of(special[special.outputs[0]]), (TensorType{DType::i32, type.shape}));
}

// The same holds for the first compilation of a model.
TEST(SpecializeTest, TypeInferenceOfOnnxNodesComputesNothing) {
  compute::Workers workers(1);
  GraphBuilder b;
  const ValueId ones = b.constant(varied({64}));
  ValueId y = b.node("Conv", {b.input("x"), b.constant(varied({64, 64, 3, 3}))},
                     {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  y = b.node("ConvTranspose", {y, b.constant(varied({64, 64, 1, 1}))});
  y = b.node("BatchNormalization", {y, ones, ones, ones, ones});
  y = b.node("AveragePool", {y}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  y = b.node("MaxPool", {y}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  y = b.node("Resize", {y, kNoValue, b.constant(tensor_of<float>({4}, {1, 1, 1, 0.5f}))});
  y = b.node("Transpose", {y}, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
  y = b.node("MatMul", {y, b.constant(varied({64, 64}))});
  y = b.node("LpNormalization", {b.node("LayerNormalization", {y, ones, ones})});
  y = b.node("Softmax", {b.node("Sum", {y, y})});
  y = b.node("Concat", {y, y}, {{"axis", std::int64_t{3}}});
  y = b.node("Gather", {y, b.integers({0, 1})}, {{"axis", std::int64_t{1}}});
  y = b.node("Cast", {y}, {{"to", std::int64_t{10}}});
  y = b.node("ReduceMean", {y}, {{"axes", std::vector<std::int64_t>{2}}});
  const Graph graph = b.output(y).take();
  const TensorType type{DType::f32, {2048, 64, 1024, 1024}};
  const Graph special = specialize(graph, std::span(&type, 1), workers);
  EXPECT_EQ(type_of(special[special.outputs[0]]), (TensorType{DType::f16, {2048, 2, 1, 128}}));
}

// Errors of a run are reported although nothing is computed.
TEST(SpecializeTest, ErrorsAreFoundBeforeTypesAreDeclared) {
  compute::Workers workers(1);
  const auto refuses = [&](Graph graph) {
    const TensorType type{DType::f32, {5, 5}};
    EXPECT_THROW(specialize(graph, std::span(&type, 1), workers), Error) << graph.nodes[0].op;
  };
  GraphBuilder gemm, cast, split;
  const ValueId x = gemm.input("x"), doubles = gemm.constant(Tensor::of<double>(1));
  refuses(gemm.output(gemm.node("Gemm", {x, x, doubles})).take());
  const ValueId y = cast.node("Cast", {cast.input("x")},
                              {{"to", std::int64_t{10}}, {"round_mode", std::string("sideways")}});
  refuses(cast.output(y).take());
  refuses(split.output(split.node("Split", {split.input("x"), split.integers({4})})).take());
}

// 2^64 elements, which overflows to 0.
TEST(SpecializeTest, UnaddressableValuesAreRejected) {
  compute::Workers workers(1);
  GraphBuilder b;
  const ValueId x = b.input("x"), huge = b.integers({std::int64_t{1} << 32, 1});
  const ValueId wide = b.integers({1, std::int64_t{1} << 32});
  const Graph graph =
      b.output(b.node("Add", {b.node("Expand", {x, huge}), b.node("Expand", {x, wide})})).take();
  const TensorType type{DType::f32, {1}};
  EXPECT_THROW(specialize(graph, std::span(&type, 1), workers), Error);
}

TEST(SpecializeTest, LargeExpandedWeightsAreConstants) {
  compute::Workers workers(1);
  GraphBuilder b;
  const ValueId weight = b.node("ConstantOfShape", {b.integers({1024, 512})});
  const ValueId other = b.node("ConstantOfShape", {b.integers({600, 512})});
  const Graph graph =
      b.output(b.node("Add", {b.node("MatMul", {b.input("x"), weight}), other})).take();
  EXPECT_THAT(operators(fold_moves(graph, workers)),
              testing::ElementsAre("ConstantOfShape", "MatMul", "Add"));
}

}  // namespace
}  // namespace sluice::engine
