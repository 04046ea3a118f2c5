#include "engine/precision/narrowing.h"

#include <gmock/gmock.h>

#include <future>
#include <limits>

#include "engine/exec/cpu/cpu_program.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/passes/passes.h"
#include "engine/plan/plan_precision.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

using testing::HasSubstr;

Graph two_layers() {
  GraphBuilder b;
  const ValueId up =
      b.node("Tanh", {b.node("MatMul", {b.input("x"), b.constant(varied({8, 16}, 2))})});
  return b.output(b.node("MatMul", {up, b.constant(varied({16, 4}, 3))})).take();
}

bool is_narrow(const Program& program) {
  return std::ranges::any_of(program.graph().values,
                             [](const Value& value) { return value.dtype == DType::f16; });
}

class NarrowingTest : public testing::Test {
 protected:
  // Simulates a GPU whose memory is full for a number of f32 graphs.
  std::shared_ptr<const Program> compile(Graph graph) {
    auto program = std::make_shared<const CpuProgram>(std::move(graph), context_);
    if (!is_narrow(*program) && full_-- > 0) throw Error(Code::exhausted, "the GPU is full");
    return program;
  }
  Narrowing::Made make(Narrowing& narrowing, const Tensor& x) {
    const TensorType type{x.dtype(), x.shape()};
    Graph graph = specialize(model_, std::span(&type, 1), workers_);
    optimize(graph, &derived_, Backend::cuda);
    return narrowing.make({graph, std::span(&type, 1), {x}},
                          [this](Graph made) { return compile(std::move(made)); });
  }
  NarrowingOptions too_large_for_the_cpu(double max_loss = 0.01) const {
    return {.to = DType::f16, .max_loss = max_loss, .sample_flops = 0};
  }

  compute::Workers workers_{2};
  const Graph model_ = two_layers();
  DerivedConstants derived_{model_};
  const std::shared_ptr<cpu::Context> context_ = std::make_shared<cpu::Context>(workers_);
  int full_ = 0;  // compilations in f32 that fail for lack of memory
};

TEST_F(NarrowingTest, ModelTooLargeForTheCpuIsMeasuredOnTheGpu) {
  Narrowing narrowing(model_, derived_, workers_, too_large_for_the_cpu());
  const Narrowing::Made made = make(narrowing, varied({5, 8}));
  EXPECT_EQ(made.report.measured, "gpu");
  EXPECT_GT(made.report.loss.value(), 0);
  EXPECT_TRUE(is_narrow(*made.program));
}

TEST_F(NarrowingTest, NarrowProgramThatCannotBeMeasuredIsNotUsed) {
  Narrowing narrowing(model_, derived_, workers_, too_large_for_the_cpu());
  full_ = 1;
  const Narrowing::Made made = make(narrowing, varied({5, 8}));
  EXPECT_FALSE(is_narrow(*made.program));
  EXPECT_EQ(made.report.loss, std::nullopt);
  EXPECT_EQ(made.report.measured, "");
  EXPECT_THAT(made.report.refused,
              HasSubstr("fp16 was not measured: not enough memory to compare"));
  EXPECT_EQ(narrowing.reports().at(0).refused, made.report.refused);
}

TEST_F(NarrowingTest, NarrowProgramIsUsedUnmeasuredIfAnyLossIsAllowed) {
  Narrowing narrowing(model_, derived_, workers_,
                      too_large_for_the_cpu(std::numeric_limits<double>::infinity()));
  full_ = 1;
  const Narrowing::Made made = make(narrowing, varied({5, 8}));
  EXPECT_TRUE(is_narrow(*made.program));
  EXPECT_EQ(made.report.loss, std::nullopt);
}

TEST_F(NarrowingTest, ReportWithoutALossRoundTripsAndAllowsNoLoss) {
  const PrecisionReport report{
      .types = "f32[1]", .requested = "fp16", .requested_loss = 0.01, .allowed_loss = 0.01};
  const PrecisionReport again = read_precision(precision_message(report).text());
  EXPECT_EQ(again.loss, std::nullopt);
  EXPECT_FALSE(again.good_for(0.01));
  EXPECT_FALSE(again.good_for(0.5));
}

TEST_F(NarrowingTest, LossOfAnotherShapeIsReportedAsSuch) {
  Narrowing narrowing(model_, derived_, workers_, {.to = DType::f16});
  for (std::int64_t kind = 1; kind <= 4; ++kind)
    EXPECT_EQ(make(narrowing, varied({1, kind, 8})).report.measured, "gpu");
  for (std::int64_t kind = 5; kind <= 6; ++kind) {
    const Narrowing::Made made = make(narrowing, varied({1, kind, 8}));
    EXPECT_TRUE(is_narrow(*made.program));
    EXPECT_EQ(made.report.measured, "another shape");
    EXPECT_EQ(made.report.types, "f32[1, " + std::to_string(kind) + ", 8]");
  }
}

TEST_F(NarrowingTest, ReportsDoNotWaitForACompilation) {
  Narrowing narrowing(model_, derived_, workers_, {.to = DType::f16});
  make(narrowing, varied({5, 8}));
  const TensorType known{DType::f32, {5, 8}}, other{DType::f32, {6, 8}};
  Graph graph = specialize(model_, std::span(&other, 1), workers_);
  optimize(graph, &derived_, Backend::cuda);
  std::promise<void> begun, go_on;
  std::future<void> held = go_on.get_future();
  auto making = std::async(std::launch::async, [&] {
    bool first = true;
    narrowing.make({graph, std::span(&other, 1), {}}, [&](Graph made) {
      if (std::exchange(first, false)) begun.set_value(), held.wait();
      return compile(std::move(made));
    });
  });
  begun.get_future().wait();
  auto report = std::async(std::launch::async, [&] {
    return narrowing.report(std::span(&known, 1)).has_value() && narrowing.reports().size() == 1;
  });
  EXPECT_EQ(report.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  go_on.set_value();
  making.get();
  EXPECT_TRUE(report.get());
}

}  // namespace
}  // namespace sluice::engine
