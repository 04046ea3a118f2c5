#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/graph/graph.h"
#include "formats/onnx/build_for_tests.h"

namespace sluice::engine {
namespace {

using onnx::Message;
using onnx::node;
using ::testing::HasSubstr;

Graph import(const Message& message) {
  const auto keep = std::make_shared<std::string>(message.text());
  return import_onnx(onnx::parse(*keep, keep, {}));
}

std::string refusal(const Message& message) {
  try {
    import(message);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

Message with_input() { return Message().message(11, onnx::value_info("x", 1, {2})); }

TEST(ImportTest, NodesAreSortedTopologically) {
  const Graph graph = import(onnx::model(with_input()
                                             .message(1, node("Neg", {"a"}, {"y"}))
                                             .message(1, node("Abs", {"x"}, {"a"}))
                                             .message(12, onnx::value_info("y", 1, {2}))));
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.nodes[0].op, "Abs");
}

TEST(ImportTest, InvalidGraphsAreRejectedWithTheirNode) {
  EXPECT_THAT(refusal(onnx::model(with_input()
                                      .message(1, node("Neg", {"b"}, {"a"}))
                                      .message(1, node("Abs", {"a"}, {"b"})))),
              HasSubstr("Neg node that makes 'a': it is part of a cycle"));
  EXPECT_THAT(refusal(onnx::model(with_input().message(1, node("Neg", {"nobody"}, {"a"})))),
              HasSubstr("nothing makes its input 'nobody'"));
  EXPECT_THAT(refusal(onnx::model(with_input()
                                      .message(1, node("Neg", {"x"}, {"a"}))
                                      .message(1, node("Abs", {"x"}, {"a"})))),
              HasSubstr("'a' is made by another node already"));
  EXPECT_THAT(refusal(onnx::model(with_input().message(12, onnx::value_info("y", 1, {2})))),
              HasSubstr("nothing makes the output 'y'"));
}

TEST(ImportTest, UnknownVersionsAreRejected) {
  EXPECT_THAT(refusal(onnx::model(with_input(), 99)), HasSubstr("opset 99 is not known"));
  EXPECT_THAT(refusal(Message().integer(1, 77).message(7, with_input())),
              HasSubstr("IR version 77"));
}

Message function(std::string_view name, const Message& body_node) {
  return Message()
      .bytes(1, name)
      .bytes(10, "mine")
      .bytes(4, "in")
      .bytes(5, "out")
      .message(7, body_node)
      .message(9, Message().bytes(1, "").integer(2, 17))
      .message(9, Message().bytes(1, "mine").integer(2, 1));
}

Message call(std::string_view op, std::string_view in, std::string_view out) {
  return node(op, {in}, {out}).bytes(7, "mine");
}

TEST(ImportTest, FunctionsAreInlined) {
  Message model = onnx::model(
      with_input().message(1, call("F", "x", "y")).message(12, onnx::value_info("y", 1, {2})));
  const Graph graph = import(model.message(25, function("F", node("Neg", {"in"}, {"out"}))));
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op, "Neg");
  EXPECT_EQ(graph.nodes[0].inputs[0], graph.inputs[0]);
}

TEST(ImportTest, RecursiveFunctionsAreRejected) {
  Message model = onnx::model(with_input().message(1, call("F", "x", "y")));
  EXPECT_THAT(refusal(model.message(25, function("F", call("F", "in", "out")))),
              HasSubstr("32 deep"));
}

// Each of `depth` functions calls the one below twice.
Message doubling(int depth, const Message& leaf) {
  Message model = onnx::model(with_input()
                                  .message(1, call("F" + std::to_string(depth), "x", "y"))
                                  .message(12, onnx::value_info("y", 1, {2})));
  model.message(25, leaf);
  for (int i = 1; i <= depth; ++i) {
    const std::string below = "F" + std::to_string(i - 1);
    model.message(25, function("F" + std::to_string(i), call(below, "in", "a"))
                          .message(7, call(below, "a", "out")));
  }
  return model;
}

TEST(ImportTest, ExplodingFunctionExpansionIsRejected) {
  const Message neg = node("Neg", {"in"}, {"out"});
  EXPECT_EQ(refusal(doubling(10, function("F0", neg))), "accepted");
  EXPECT_THAT(refusal(doubling(22, function("F0", neg))), HasSubstr("functions make more than"));
  Message many = function("F0", neg);
  for (int i = 0; i < 20'000; ++i) many.bytes(4, "i" + std::to_string(i));
  EXPECT_THAT(refusal(doubling(17, many)), HasSubstr("functions make more than"));
  Message wordy = node("Neg", {"in"}, {"out"});
  wordy.message(5, Message().bytes(1, "junk").bytes(4, std::string(200'000, 'z')).integer(20, 3));
  EXPECT_THAT(refusal(doubling(14, function("F0", wordy))), HasSubstr("functions make more than"));
}

}  // namespace
}  // namespace sluice::engine
