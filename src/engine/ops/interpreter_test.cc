// Limits of loops.
#include "engine/ops/interpreter.h"

#include "engine/passes/model_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

// An infinite loop that outputs the same tensor in every iteration.
Graph endless() {
  Model body;
  body.input({});  // the turn
  body.output(body.op("Identity", {body.input({})}));
  body.output(body.op("Identity", {body.number(1)}));
  Model m;
  const ValueId rows = m.op("Loop", {kNoValue, kNoValue});
  m.graph.nodes.back().subgraphs.emplace_back("body", std::make_shared<Graph>(body.graph));
  m.output(rows);
  return m.graph;
}

std::string error_of(const SessionOptions& options) {
  compute::Workers workers(1);
  try {
    Session(endless(), workers, options).run({});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(InterpreterTest, InfiniteLoopsAreStopped) {
  EXPECT_THAT(error_of({.nodes = 1000}), HasSubstr("stopped after 1000 nodes"));
}

TEST(InterpreterTest, LoopOutputsAreAccountedEvenIfTensorsAreShared) {
  EXPECT_THAT(error_of({.memory = 1 << 20, .nodes = 100'000}), HasSubstr("a limit of 1.0 MiB"));
}

}  // namespace
}  // namespace sluice::engine
