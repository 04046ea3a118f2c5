#include "engine/precision/precision_choice.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/exec/cpu/cpu_program.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/session/gpu_for_tests.h"
#include "engine/session/session.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

ValueId number(GraphBuilder& b, float value) { return b.constant(Tensor::of(value)); }

class PrecisionChoiceTest : public testing::Test {
 protected:
  Emulation emulation(const Graph& graph, const Tensor& x, DType to = DType::f16) {
    const TensorType type{x.dtype(), x.shape()};
    return {specialize(graph, std::span(&type, 1), workers), to, {x}, workers};
  }
  static std::vector<std::string> ops(const Emulation& run, const std::vector<bool>& narrow) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < narrow.size(); ++i)
      if (narrow[i]) names.push_back(run.graph().nodes[i].op);
    return names;
  }

  compute::Workers workers{2};
};

TEST_F(PrecisionChoiceTest, EmulationRoundsLikeTheTypes) {
  GraphBuilder b;
  const Graph graph = b.output(b.node("Abs", {b.input("x")})).take();
  for (const float x : {1.0f, 1.0005f, 0.3333f, 6.1e-5f, 5.9e-6f, 2.9e-8f, 65503.0f, 12345.67f}) {
    for (const DType to : {DType::f16, DType::bf16}) {
      Emulation run = emulation(graph, tensor_of<float>({1}, {x}), to);
      const double rounded = to == DType::f16 ? float(Half(x)) : float(BFloat16(x));
      EXPECT_NEAR(run.loss({true}), std::fabs(rounded - double{x}) / double{x}, 1e-9) << x;
    }
  }
  EXPECT_EQ(emulation(graph, tensor_of<float>({1}, {65520})).loss({true}),
            std::numeric_limits<double>::infinity());
}

// The third node outputs 1e6, which the fourth reads.
Graph large_between() {
  GraphBuilder b;
  ValueId x = b.node("Tanh", {b.input("x")});
  for (const float by : {100.0f, 1e4f, 1e-6f}) x = b.node("Mul", {x, number(b, by)});
  return b.output(b.node("Tanh", {x})).take();
}

TEST_F(PrecisionChoiceTest, OnlyNodesThatOverflowStayInF32) {
  Emulation run = emulation(large_between(), tensor_of<float>({3}, {1, -0.5f, 2}));
  const PrecisionChoice choice = choose_precision(run, 0.01);
  EXPECT_THAT(choice.narrow, ElementsAre(true, true, false, false, true));
  ASSERT_EQ(choice.wide.size(), 2u);
  EXPECT_THAT(choice.wide[0].node, HasSubstr("Mul node 'Mul"));
  EXPECT_THAT(choice.wide[0].why, HasSubstr("is infinite or NaN where f32 makes up to 9.64e+05"));
  EXPECT_GT(choice.loss, 0);
  EXPECT_LT(choice.loss, 2e-3);
}

TEST_F(PrecisionChoiceTest, Bfloat16HasTheRangeOfF32) {
  Emulation run = emulation(large_between(), tensor_of<float>({3}, {1, -0.5f, 2}), DType::bf16);
  EXPECT_THAT(choose_precision(run, 0.1).narrow, ElementsAre(true, true, true, true, true));
}

TEST_F(PrecisionChoiceTest, MaskValuesAreNotAnOverflow) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const Tensor mask = tensor_of<float>({4}, {0, -3.4028235e38f, -1e9f, 0});
  const Graph graph = b.output(b.node("Softmax", {b.node("Add", {x, b.constant(mask)})})).take();
  Emulation run = emulation(graph, tensor_of<float>({1, 4}, {1, 2, 3, 4}));
  const PrecisionChoice choice = choose_precision(run, 0.01);
  EXPECT_THAT(choice.narrow, ElementsAre(true, true));
  EXPECT_LT(choice.loss, 1e-3);
}

// In f16, x + 1000 loses everything of x below 0.5.
Graph cancels() {
  GraphBuilder b;
  const ValueId x = b.node("Tanh", {b.input("x")});
  const ValueId far = b.node("Add", {x, number(b, 1000)});
  const ValueId back = b.node("Sub", {far, number(b, 1000)});
  return b.output(b.node("Relu", {back})).take();
}

TEST_F(PrecisionChoiceTest, NodesThatLoseTooMuchStayInF32AndAreNamed) {
  Emulation run = emulation(cancels(), varied({64}));
  EXPECT_GT(run.loss({true, true, true, true}), 0.1);
  const PrecisionChoice choice = choose_precision(run, 0.01);
  EXPECT_THAT(choice.narrow, ElementsAre(false, false, false, true));  // and their ancestors
  EXPECT_THAT(choice.wide, Contains(Field(&WideNode::node, HasSubstr("Add"))));
  EXPECT_THAT(choice.wide, Contains(Field(&WideNode::why, HasSubstr("of the largest output"))));
  EXPECT_LE(choice.loss, 0.005);
  EXPECT_EQ(run.loss(choice.narrow), choice.loss);
}

TEST_F(PrecisionChoiceTest, AllNodesStayInF32IfNoLossIsAllowed) {
  Emulation run = emulation(cancels(), varied({64}));
  const PrecisionChoice choice = choose_precision(run, 0);
  EXPECT_THAT(ops(run, choice.narrow), ElementsAre());
  EXPECT_EQ(choice.loss, 0);
}

TEST_F(PrecisionChoiceTest, IntegersThatAFloatCarriesAreNotRounded) {
  GraphBuilder b;
  const ValueId ids = b.input("x", DType::i64);
  const ValueId real = b.node("Cast", {ids}, {{"to", std::int64_t{1}}});
  const ValueId next = b.node("Add", {real, number(b, 1)});
  const Graph graph =
      b.output(b.node("Mod", {next, number(b, 16)}, {{"fmod", std::int64_t{1}}})).take();
  Emulation run = emulation(graph, tensor_of<std::int64_t>({3}, {4098, 9, 20001}));
  const PrecisionChoice choice = choose_precision(run, 0.01);
  EXPECT_THAT(ops(run, choice.narrow), testing::Not(Contains("Cast")));
  EXPECT_LE(choice.loss, 0.005);
}

// ---- sessions ---------------------------------------------------------------------------------

// A GPU that scales the results of f16 programs.
class SkewedGpu final : public Gpu {
 public:
  explicit SkewedGpu(float by) : by_(by) {}
  std::shared_ptr<const Program> compile(Graph graph,
                                         const std::shared_ptr<cpu::Context>& host) override {
    const bool narrow = std::any_of(graph.values.begin(), graph.values.end(), [](const Value& v) {
      return v.dtype == DType::f16 && !v.constant;
    });
    return std::make_shared<Run>(std::move(graph), host, narrow ? by_ : 1);
  }
  void revive() override {}

 private:
  struct Run final : Program {
    Run(Graph graph, const std::shared_ptr<cpu::Context>& host, float by)
        : program(std::move(graph), host), factor(by) {}
    const Graph& graph() const noexcept override { return program.graph(); }
    const Schedule& schedule() const noexcept override { return program.schedule(); }
    std::vector<Tensor> run(std::span<const Tensor> inputs,
                            std::vector<StepTime>* times) const override {
      std::vector<Tensor> made = program.run(inputs, times);
      for (float& x : made[0].values<float>()) x *= factor;
      return made;
    }
    const CpuProgram program;
    const float factor;
  };
  const float by_;
};

class NarrowSessionTest : public PrecisionChoiceTest {
 protected:
  static Graph layers() {
    GraphBuilder b;
    const ValueId x = b.input("x");
    const ValueId up = b.node("Tanh", {b.node("MatMul", {x, b.constant(varied({8, 16}, 2))})});
    Graph graph = b.output(b.node("MatMul", {up, b.constant(varied({16, 4}, 3))})).take();
    graph[x].dims = {{-1, "batch"}, {8, ""}};
    return graph;
  }
  Session session(Graph graph, float skew = 1, double max_loss = 0.01) {
    return {std::move(graph),
            workers,
            std::make_unique<SkewedGpu>(skew),
            {.precision = DType::f16, .max_loss = max_loss}};
  }
  static PrecisionReport report(const Session& session, const Tensor& x) {
    return session.ready(std::span(&x, 1)).compiled.precision.value();
  }
};

TEST_F(NarrowSessionTest, LossOnTheGpuIsRecordedAndStoredInThePlan) {
  const Session made = session(layers());
  const PrecisionReport seen = report(made, varied({5, 8}));
  EXPECT_EQ(seen.measured, "gpu");
  EXPECT_EQ(seen.refused, "");
  EXPECT_GT(seen.loss.value(), 0);
  EXPECT_LT(seen.loss.value(), 0.01);
  EXPECT_GE(seen.narrow, 2);
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "sluice_precision_choice_test.plan";
  write_plan(file, made.plan({}));
  const Plan plan = read_plan(file, workers);
  std::filesystem::remove(file);
  ASSERT_EQ(plan.precision.size(), 1u);
  EXPECT_EQ(plan.precision[0].types, "f32[5, 8]");
  EXPECT_NEAR(plan.precision[0].loss.value(), seen.loss.value(), 1e-6);
  EXPECT_EQ(plan.precision[0].narrow, seen.narrow);
}

TEST_F(NarrowSessionTest, ProgramThatLosesTooMuchOnTheGpuIsRefusedAndNamesNodes) {
  const Session made = session(layers(), 1.05f);
  const Tensor x = varied({5, 8});
  const PrecisionReport seen = report(made, x);
  EXPECT_NEAR(seen.loss.value(), 0.05, 5e-3);
  EXPECT_THAT(seen.refused, HasSubstr("fp16 loses 0.05 of the largest output, more than 0.01: "));
  EXPECT_THAT(seen.refused, HasSubstr("MatMul"));
  const Datum given(x);
  const Session plain(layers(), workers);
  const Tensor got = made.run(std::span(&given, 1))[0].tensor;
  EXPECT_LT(loss_of(plain.run(std::span(&given, 1))[0].tensor, got), 1e-6);  // in f32
  EXPECT_EQ(report(session(layers(), 1.05f, 0.1), x).refused, "");
}

TEST_F(NarrowSessionTest, NodesThatOverflowAreF32InTheProgram) {
  GraphBuilder b;
  ValueId value = b.input("x");
  for (const float by : {300.0f, 300.0f, 1e-5f}) {
    const Tensor weights = varied({16, 16}, 4);
    for (float& w : weights.values<float>()) w *= by;
    value = b.node("MatMul", {value, b.constant(weights)});
  }
  const Session made = session(b.output(value).take());
  const Tensor x = varied({4, 16});
  const PrecisionReport seen = report(made, x);
  EXPECT_EQ(seen.refused, "");
  EXPECT_EQ(seen.wide.size(), 2u);  // one reads the other's output
  EXPECT_EQ(seen.narrow, 1);
  EXPECT_LT(seen.loss.value(), 0.01);
}

TEST_F(NarrowSessionTest, PlanThatLosesMoreThanAllowedIsNotUsed) {
  const Session made = session(layers(), 1.05f, 0.1), plain(layers(), workers);
  const Tensor x = varied({5, 8});
  EXPECT_EQ(report(made, x).refused, "");
  const Datum given(x);
  const Tensor right = plain.run(std::span(&given, 1))[0].tensor;
  for (const double max_loss : {0.1, 0.01}) {
    const Session from(made.plan({}), workers, std::make_unique<SkewedGpu>(1.05f),
                       {.precision = DType::f16, .max_loss = max_loss});
    const bool used = max_loss == 0.1;
    const Tensor got = from.run(std::span(&given, 1))[0].tensor;
    EXPECT_NEAR(loss_of(right, got), used ? 0.05 : 0, 5e-3) << max_loss;
    const Session::Compiled compiled = from.ready(std::span(&x, 1)).compiled;
    EXPECT_EQ(compiled.passes.empty(), used) << "a plan brought it";
    EXPECT_EQ(compiled.precision.value().refused.empty(), used);
  }
}

TEST_F(NarrowSessionTest, NothingIsMeasuredForAnInfiniteLoss) {
  const Session made = session(layers(), 1.05f, std::numeric_limits<double>::infinity());
  const PrecisionReport seen = report(made, varied({5, 8}));
  EXPECT_EQ(seen.measured, "");
  EXPECT_EQ(seen.loss, std::nullopt);
  EXPECT_EQ(seen.refused, "");
}

}  // namespace
}  // namespace sluice::engine
