#include "engine/passes/constant_folding.h"

#include "engine/passes/model_for_tests.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

using Ints = Attributes::Integers;

TEST(FoldTest, WeightsAreTransposedOnce) {
  Model m;
  const ValueId x = m.input(varied({2, 3}));
  const ValueId transposed = m.op("Transpose", {m.weights({4, 3})}, {{"perm", Ints{1, 0}}});
  m.output(m.op("MatMul", {x, m.op("Identity", {transposed})}));
  compute::Workers workers(1);
  const Graph folded = fold_moves(m.graph, workers);
  ASSERT_EQ(folded.nodes.size(), 1u);
  EXPECT_EQ(folded[folded.nodes[0].inputs[1]].constant.shape(), (Shape{3, 4}));
}

TEST(FoldTest, OverridableDefaultsAreNotFolded) {
  Model m;
  const ValueId x = m.input(varied({2, 3}));
  m.graph[x].constant = varied({2, 3}, 9);
  m.output(m.op("Transpose", {x}));
  compute::Workers workers(1);
  EXPECT_EQ(fold_moves(m.graph, workers).nodes.size(), 1u);
}

TEST(FoldTest, FailingNodesAreKept) {
  Model m;
  m.output(m.op("Reshape", {m.weights({4, 3}), m.list({5, 5})}));
  compute::Workers workers(1);
  EXPECT_EQ(fold_moves(m.graph, workers).nodes.size(), 1u);
}

TEST(FoldTest, ExplodingConstantChainsAreNotFolded) {
  Model m;
  ValueId x = m.weights({1000});
  for (int i = 0; i < 60; ++i) x = m.op("Concat", {x, x}, {{"axis", std::int64_t{0}}});
  m.output(x);
  compute::Workers workers(1);
  const Graph folded = fold_moves(m.graph, workers, 1e6);
  EXPECT_THAT(folded.nodes.size(), ::testing::AllOf(::testing::Gt(40u), ::testing::Lt(60u)));
}

TEST(DerivedConstantsTest, DerivedConstantsAreSharedByAllShapes) {
  Model m;
  const ValueId x = m.input(varied({2, 3}));
  m.output(m.op("Gemm", {x, m.weights({4, 3})}, {{"transB", std::int64_t{1}}}));
  compute::Workers workers(1);
  DerivedConstants derived(m.graph);
  const auto weights = [&](std::int64_t rows) {
    const TensorType type{DType::f32, Shape{rows, 3}};
    Graph graph = specialize(m.graph, std::span(&type, 1), workers);
    optimize(graph, &derived);
    return graph[graph.nodes[0].inputs[1]].constant;
  };
  const Tensor first = weights(2);
  EXPECT_EQ(first.shape(), (Shape{3, 4}));
  EXPECT_EQ(weights(5).data(), first.data());
}

TEST(DerivedConstantsTest, SameElementsInTwoShapesAreTwoConstants) {
  Model m;
  const Tensor list = varied({16});
  m.constant(list);
  DerivedConstants derived(m.graph);
  const auto made = [&](const Shape& shape) {
    const Tensor seen = list.reshaped(shape);
    return derived.get(std::span(&seen, 1), "copy", [&] { return Tensor(DType::f32, shape); });
  };
  EXPECT_NE(made({2, 8}).data(), made({4, 4}).data());
  EXPECT_EQ(made({2, 8}).data(), made({2, 8}).data());
}

}  // namespace
}  // namespace sluice::engine
