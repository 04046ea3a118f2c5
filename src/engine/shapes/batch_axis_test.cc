#include "engine/shapes/batch_axis.h"

#include <gtest/gtest.h>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using Integers = std::vector<std::int64_t>;

// A graph with one input [batch, 3, 4].
template <class Make>
Graph graph_of(Make&& make) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  Graph graph = b.output(make(b, x)).take();
  graph[x].dims = {{-1, "batch"}, {3, ""}, {4, ""}};
  return graph;
}

template <class Make>
bool independent(Make&& make) {
  compute::Workers workers(1);
  const Graph graph = graph_of(make);
  const TensorType type{DType::f32, {6, 3, 4}};
  const auto batch = batch_inputs_of(graph, std::span(&type, 1));
  return batch && batch_is_independent(graph, std::span(&type, 1), *batch, workers);
}

// The batch size as computed by the graph.
ValueId count(GraphBuilder& b, ValueId x) {
  return b.node("Gather", {b.node("Shape", {x}), b.integers({0})});
}

TEST(BatchAxisTest, ElementwiseOperatorsKeepRowsIndependent) {
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Tanh", {b.node("Add", {x, b.constant(varied({3, 4}))})});
  }));
}

TEST(BatchAxisTest, GemmsKeepRowsIndependent) {
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId y = b.node("MatMul", {x, b.constant(varied({4, 5}))});
    return b.node("MatMul", {y, b.node("Transpose", {y}, {{"perm", Integers{0, 2, 1}}})});
  }));
}

TEST(BatchAxisTest, BatchAxisIsTrackedThroughComputedShapes) {
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId flat = b.node("Reshape", {x, b.integers({-1, 4})});  // three lines of each item
    const ValueId y = b.node("MatMul", {flat, b.constant(varied({4, 2}))});
    const ValueId shape =
        b.node("Concat", {count(b, x), b.integers({3, 2})}, {{"axis", std::int64_t{0}}});
    const ValueId back = b.node("Reshape", {y, shape});
    return b.node("Softmax", {b.node("ReduceMean", {back}, {{"axes", Integers{1}}})},
                  {{"axis", std::int64_t{-1}}});
  }));
}

TEST(BatchAxisTest, RepeatedConstantsKeepRowsIndependent) {
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId shape =
        b.node("Concat", {count(b, x), b.integers({1, 4})}, {{"axis", std::int64_t{0}}});
    const ValueId token = b.node("Expand", {b.constant(varied({1, 1, 4})), shape});
    return b.node("Concat", {token, x}, {{"axis", std::int64_t{1}}});
  }));
}

TEST(BatchAxisTest, ReductionsOverTheBatchMixRows) {
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Sub", {x, b.node("ReduceMean", {x}, {{"axes", Integers{0}}})});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Softmax", {x}, {{"axis", std::int64_t{0}}});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId flat = b.node("Reshape", {x, b.integers({-1, 12})});
    return b.node("MatMul", {b.node("MatMul", {flat, b.node("Transpose", {flat})}), flat});
  }));
}

TEST(BatchAxisTest, BatchSizeAndRowIndexMixRows) {
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Div", {x, b.node("Cast", {count(b, x)}, {{"to", std::int64_t{1}}})});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {  // upside down
    return b.node("Slice",
                  {x, b.integers({-1}), b.integers({-1000}), b.integers({0}), b.integers({-1})});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {  // the first item, to all
    return b.node("Add",
                  {x, b.node("Slice", {x, b.integers({0}), b.integers({1}), b.integers({0})})});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {  // 0, 1, 2, ... for each item its own
    const ValueId numbers =
        b.node("Range", {b.constant(Tensor::of<std::int64_t>(0)), b.node("Squeeze", {count(b, x)}),
                         b.constant(Tensor::of<std::int64_t>(1))});
    const ValueId real = b.node("Cast", {numbers}, {{"to", std::int64_t{1}}});
    return b.node("Mul", {x, b.node("Reshape", {real, b.integers({-1, 1, 1})})});
  }));
}

TEST(BatchAxisTest, OutputsMustHaveTheBatchAxisFirst) {
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Transpose", {x}, {{"perm", Integers{1, 0, 2}}});
  }));
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("Reshape", {x, b.integers({3, -1})});
  }));
}

TEST(BatchAxisTest, OperatorsWithoutARuleMixRows) {
  EXPECT_FALSE(independent([](GraphBuilder& b, ValueId x) {
    return b.node("CumSum", {x, b.constant(Tensor::of<std::int64_t>(1))});
  }));
}

TEST(BatchAxisTest, ModelsWithoutABatchSymbolHaveNoBatchInputs) {
  Graph graph = graph_of([](GraphBuilder& b, ValueId x) { return b.node("Relu", {x}); });
  const TensorType type{DType::f32, {6, 3, 4}};
  EXPECT_TRUE(batch_inputs_of(graph, std::span(&type, 1)));
  graph[graph.inputs[0]].dims->front() = {6, ""};
  EXPECT_FALSE(batch_inputs_of(graph, std::span(&type, 1)));
  graph[graph.inputs[0]].dims = {{-1, "n"}, {-1, "n"}, {4, ""}};
  EXPECT_FALSE(batch_inputs_of(graph, std::span(&type, 1)));
  graph[graph.inputs[0]].dims.reset();
  EXPECT_FALSE(batch_inputs_of(graph, std::span(&type, 1)));
}

// Complete encoders, convolutional networks and recurrent layers: splitting must be recognized as
// possible, and must not change the results.
TEST(BatchAxisTest, ModelLayersKeepRowsIndependent) {
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId image = b.node("Unsqueeze", {x, b.integers({1})});
    const ValueId conv =
        b.node("Conv", {image, b.constant(varied({2, 1, 3, 3}))}, {{"pads", Integers{1, 1, 1, 1}}});
    const ValueId pool = b.node("GlobalAveragePool", {b.node("Relu", {conv})});
    return b.node("Gemm",
                  {b.node("Flatten", {pool}), b.constant(varied({2, 5})), b.constant(varied({5}))});
  }));
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId steps = b.node("Transpose", {x}, {{"perm", Integers{1, 0, 2}}});
    const ValueId y = b.node(
        "LSTM",
        {steps, b.constant(varied({1, 8, 4})), b.constant(varied({1, 8, 2})), kNoValue, kNoValue},
        {{"hidden_size", std::int64_t{2}}});  // [3, 1, batch, 2]
    return b.node("Transpose", {y}, {{"perm", Integers{2, 0, 1, 3}}});
  }));
  EXPECT_TRUE(independent([](GraphBuilder& b, ValueId x) {
    const ValueId ids = b.node("Cast", {x}, {{"to", std::int64_t{7}}});
    const ValueId words = b.node("Gather", {b.constant(varied({9, 6})), ids});  // [batch, 3, 4, 6]
    const ValueId norm =
        b.node("LayerNormalization", {words, b.constant(varied({6})), b.constant(varied({6}))},
               {{"axis", std::int64_t{-1}}});
    return b.node("Gather", {norm, b.constant(Tensor::of<std::int64_t>(0))},
                  {{"axis", std::int64_t{1}}});
  }));
}

}  // namespace
}  // namespace sluice::engine
