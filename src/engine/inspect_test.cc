#include "engine/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/shapes/flops.h"
#include "engine/shapes/specialize.h"
#include "formats/onnx/build_for_tests.h"

namespace sluice::engine {
namespace {

using onnx::Message;
using onnx::node;

Graph imported(const Message& message) {
  const auto keep = std::make_shared<std::string>(message.text());
  return import_onnx(onnx::parse(*keep, keep, {}));
}

double flops_of(const Message& nodes, std::vector<TensorType> inputs) {
  Message graph = nodes;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    graph.message(11, onnx::value_info("in" + std::to_string(i), 1, {}));
  const Graph made = imported(onnx::model(graph.message(12, onnx::value_info("out", 1, {}))));
  compute::Workers workers(1);
  return flops(specialize(made, inputs, workers));
}

TensorType f32(const Shape& shape) { return {DType::f32, shape}; }

Message one(const Message& of) { return Message().message(1, of); }

Message ints(std::string_view name, std::initializer_list<std::int64_t> list) {
  Message m = Message().bytes(1, name).integer(20, 7);
  for (const auto i : list) m.integer(8, i);
  return m;
}

TEST(FlopsTest, GemmsAndConvolutionsAreCountedExactly) {
  EXPECT_EQ(flops_of(one(node("MatMul", {"in0", "in1"}, {"out"})), {f32({3, 5, 7}), f32({7, 2})}),
            2 * 3 * 5 * 7 * 2);
  EXPECT_EQ(flops_of(one(node("Gemm", {"in0", "in1", "in2"}, {"out"})),
                     {f32({3, 5}), f32({5, 4}), f32({4})}),
            2 * 3 * 5 * 4 + 3 * 4);
  EXPECT_EQ(
      flops_of(one(node("Conv", {"in0", "in1"}, {"out"}).message(5, ints("pads", {1, 1, 1, 1}))),
               {f32({2, 3, 8, 8}), f32({6, 3, 3, 3})}),
      2 * (2 * 6 * 8 * 8) * (3 * 3 * 3));
}

TEST(FlopsTest, OtherOperatorsCountElementsAndDataMovementCountsZero) {
  EXPECT_EQ(flops_of(one(node("Relu", {"in0"}, {"out"})), {f32({3, 5})}), 15);
  EXPECT_EQ(flops_of(one(node("GlobalAveragePool", {"in0"}, {"out"})), {f32({1, 3, 4, 4})}), 48);
  EXPECT_EQ(flops_of(one(node("Transpose", {"in0"}, {"out"})), {f32({3, 5})}), 0);
  EXPECT_EQ(flops_of(one(node("Identity", {"in0"}, {"out"})), {f32({3, 5})}), 0);
}

Graph two_products() {
  return imported(onnx::model(Message()
                                  .message(1, node("MatMul", {"x", "w"}, {"a"}))
                                  .message(1, node("Add", {"a", "b"}, {"c"}))
                                  .message(1, node("Relu", {"c"}, {"d"}))
                                  .message(1, node("MatMul", {"d", "w"}, {"y"}))
                                  .message(5, onnx::float_tensor("w", {2, 2}, {1, 2, 3, 4}))
                                  .message(5, onnx::float_tensor("b", {2}, {1, 2}))
                                  .message(11, onnx::value_info("x", 1, {3, 2}))
                                  .message(12, onnx::value_info("y", 1, {3, 2}))));
}

TEST(InspectTest, CountsOperatorsAndParameters) {
  compute::Workers workers(1);
  const std::vector<TensorType> inputs{f32({3, 2})};
  const Inspection found = inspect(two_products(), inputs, workers);
  EXPECT_EQ(found.nodes, 4u);
  ASSERT_EQ(found.operators.size(), 3u);
  EXPECT_EQ(found.operators[0].op, "MatMul");
  EXPECT_EQ(found.operators[0].nodes, 2);
  EXPECT_EQ(found.operators[0].flops, 2 * 2 * 3 * 2 * 2);
  ASSERT_EQ(found.parameters.size(), 1u);
  EXPECT_EQ(found.parameters[0].elements, 6u);
  EXPECT_EQ(found.parameters[0].bytes, 24u);
  ASSERT_TRUE(found.compiled);
  EXPECT_EQ(found.compiled->flops, 2 * 24 + 6 + 6);
  EXPECT_LE(found.compiled->min_arena, found.compiled->arena);
  ASSERT_FALSE(found.compiled->placements.empty());
  for (const NodePlacement& place : found.compiled->placements) {
    EXPECT_EQ(place.device, "cpu");
    EXPECT_FALSE(place.kernel.empty());
  }
}

TEST(InspectTest, UnsupportedOperatorsAreReported) {
  const Graph graph = imported(onnx::model(Message()
                                               .message(1, node("Frobnicate", {"x"}, {"y"}))
                                               .message(11, onnx::value_info("x", 1, {3}))
                                               .message(12, onnx::value_info("y", 1, {3}))));
  compute::Workers workers(1);
  const std::vector<TensorType> inputs{f32({3})};
  const Inspection found = inspect(graph, inputs, workers);
  EXPECT_FALSE(found.operators.at(0).supported);
  EXPECT_FALSE(found.compiled);
  EXPECT_THAT(found.why_not, ::testing::HasSubstr("Frobnicate"));
}

}  // namespace
}  // namespace sluice::engine
