#include "engine/precision/sample_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace sluice::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ValueId value(Graph& graph, Value made) {
  graph.values.push_back(std::move(made));
  return static_cast<ValueId>(graph.values.size() - 1);
}

// ids [batch, 4] index a table of 3 rows; mask [batch, 4]; x f32 [batch, 2, ?].
Graph example() {
  Graph graph;
  const Dim batch{-1, "batch"}, open{-1, ""};
  const auto input = [&](const char* name, DType dtype, std::vector<Dim> dims) {
    const ValueId id = value(graph, {.name = name, .dtype = dtype, .dims = std::move(dims)});
    graph.inputs.push_back(id);
    return id;
  };
  const ValueId ids = input("ids", DType::i64, {batch, {4, ""}});
  input("mask", DType::i64, {batch, {4, ""}});
  input("x", DType::f32, {batch, {2, ""}, open});
  const ValueId table = value(graph, {.name = "table", .constant = Tensor(DType::f32, {3, 5})});
  const ValueId cast = value(graph, {.name = "cast"}), found = value(graph, {.name = "found"});
  graph.nodes.push_back(
      {.name = "", .op = "Cast", .domain = "", .inputs = {ids}, .outputs = {cast}});
  graph.nodes.push_back(
      {.name = "", .op = "Gather", .domain = "", .inputs = {table, cast}, .outputs = {found}});
  return graph;
}

Sizes sizes(std::initializer_list<std::string_view> given) {
  Sizes made;
  for (const auto text : given) made.add(text);
  return made;
}

std::string refusal(const Graph& graph, std::initializer_list<std::string_view> given) {
  try {
    sizes(given).types(graph);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

TEST(SampleInputsTest, DynamicDimensionsAreOneUnlessGiven) {
  const Graph graph = example();
  auto types = Sizes().types(graph);
  EXPECT_EQ(types[0].shape, (Shape{1, 4}));
  EXPECT_EQ(types[2].shape, (Shape{1, 2, 1}));
  types = sizes({"batch=7", "x=7x2x9"}).types(graph);
  EXPECT_EQ(types[1].shape, (Shape{7, 4}));
  EXPECT_EQ(types[2].shape, (Shape{7, 2, 9}));
  Sizes batched = sizes({"x=1x2x9"});
  batched.set_batch(3);
  types = batched.types(graph);
  EXPECT_EQ(types[0].shape, (Shape{3, 4}));
  EXPECT_EQ(types[2].shape, (Shape{3, 2, 9}));
}

TEST(SampleInputsTest, UnknownNamesAndSizesAreReportedWithTheInputs) {
  const Graph graph = example();
  EXPECT_THAT(refusal(graph, {"bach=2"}), HasSubstr("'bach'; did you mean"));
  EXPECT_THAT(refusal(graph, {"bach=2"}),
              HasSubstr("  mask  i64[batch, 4]\n  x     f32[batch, 2, ?]"));
  EXPECT_THAT(refusal(graph, {"x=1x3x9"}), HasSubstr("'x' is f32[batch, 2, ?], not [1, 3, 9]"));
  EXPECT_THAT(refusal(graph, {"x=1x2"}), HasSubstr("not [1, 2]"));
  for (const auto bad : {"x", "=3", "x=", "x=1x", "x=1y2", "x=-1", "x=1xx2"})
    EXPECT_THAT(refusal(graph, {bad}), HasSubstr("is not a shape")) << bad;
}

TEST(SampleInputsTest, RandomInputsAreValidForTheModel) {
  const Graph graph = example();
  const auto inputs = random_inputs(graph, sizes({"batch=50"}).types(graph));
  const auto ids = inputs[0].values<std::int64_t>();
  EXPECT_THAT(ids, Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(3))));
  EXPECT_THAT(std::set(ids.begin(), ids.end()), ::testing::SizeIs(3));
  EXPECT_THAT(inputs[1].values<std::int64_t>(), Each(1));
  EXPECT_THAT(std::set(inputs[2].values<float>().begin(), inputs[2].values<float>().end()),
              ::testing::SizeIs(::testing::Gt(90u)));
  const auto again = random_inputs(graph, sizes({"batch=50"}).types(graph));
  EXPECT_TRUE(std::ranges::equal(ids, again[0].values<std::int64_t>()));
}

// Nodes without an output, and very many users: a search by paths would not end.
TEST(SampleInputsTest, IndicesAreFollowedInLinearTime) {
  Graph graph = example();
  const auto pass = [&](ValueId from, std::vector<ValueId> to) {
    graph.nodes.push_back(
        {.name = "", .op = "Identity", .domain = "", .inputs = {from}, .outputs = std::move(to)});
  };
  pass(graph.inputs[0], {});
  for (int i = 0; i < 30; ++i) {
    pass(graph.inputs[0], {kNoValue});
    pass(kNoValue, {kNoValue});
  }
  for (int i = 0; i < 50'000; ++i) pass(graph.inputs[0], {value(graph, {.name = "unused"})});
  ValueId last = graph.inputs[1];
  for (int i = 0; i < 20; ++i) {
    const ValueId next = value(graph, {.name = "passed"});
    pass(last, {next});
    last = next;
  }
  const ValueId table = value(graph, {.name = "two", .constant = Tensor(DType::f32, {2, 5})});
  graph.nodes.push_back({.name = "",
                         .op = "Gather",
                         .domain = "",
                         .inputs = {table, last},
                         .outputs = {value(graph, {.name = "found"})}});
  const auto inputs = random_inputs(graph, sizes({"batch=50"}).types(graph));
  EXPECT_THAT(inputs[0].values<std::int64_t>(),
              Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(3))));
  EXPECT_THAT(inputs[1].values<std::int64_t>(),
              Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(2))));
}

}  // namespace
}  // namespace sluice::engine
