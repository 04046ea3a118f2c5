#include "engine/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

// [batch, 8] through two layers, then reshaped to [batch, 2, 2] by a shape computed from the
// input's.
Graph two_layers(unsigned seed = 1) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId hidden =
      b.node("Relu", {b.node("Add", {b.node("MatMul", {x, b.constant(varied({8, 16}, seed))}),
                                     b.constant(varied({16}, seed + 1))})});
  const ValueId y = b.node("MatMul", {hidden, b.constant(varied({16, 4}, seed + 2))});
  const ValueId batch = b.node("Gather", {b.node("Shape", {x}), b.integers({0})});
  const ValueId shape = b.node("Concat", {batch, b.integers({2, 2})}, {{"axis", std::int64_t{0}}});
  return b.output(b.node("Reshape", {y, shape})).take();
}

std::vector<float> run(const Session& session, const Tensor& x) {
  const Datum given(x);
  return list_of<float>(session.run(std::span(&given, 1))[0].tensor);
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

TEST(SessionTest, CompiledGraphsMatchTheOperators) {
  compute::Workers workers(2);
  const Session compiled(two_layers(), workers), plain(two_layers(), workers, {.compile = false});
  for (const std::int64_t batch : {1, 3, 64}) {
    const Tensor x = varied({batch, 8}, 7);
    const TensorType type{DType::f32, x.shape()};
    EXPECT_TRUE(compiled.compiled(std::span(&type, 1)).program);
    expect_near(run(compiled, x), run(plain, x));
  }
}

TEST(SessionTest, DataDependentShapesAreInterpretedAndReportWhy) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  Graph graph = b.output(b.node("NonZero", {x})).take();
  compute::Workers workers(2);
  const Session session(std::move(graph), workers);
  const TensorType type{DType::f32, {3}};
  EXPECT_THAT(session.compiled(std::span(&type, 1)).why_not, HasSubstr("NonZero"));
  const Datum given(tensor_of<float>({3}, {0, 5, 6}));
  EXPECT_EQ(list_of<std::int64_t>(session.run(std::span(&given, 1))[0].tensor),
            (std::vector<std::int64_t>{1, 2}));
}

TEST(SessionTest, ArenaIsSmallerThanTheSumOfItsValues) {
  GraphBuilder b;
  ValueId x = b.input("x");
  for (int i = 0; i < 20; ++i)
    x = b.node("Softmax", {b.node("MatMul", {x, b.constant(varied({64, 64}))})});
  Graph graph = b.output(x).take();
  compute::Workers workers(1);
  const Session session(std::move(graph), workers);
  const TensorType type{DType::f32, {32, 64}};
  const auto program = session.compiled(std::span(&type, 1)).program;
  ASSERT_TRUE(program);
  EXPECT_LE(program->schedule().arena, program->schedule().peak_live * 115 / 100);
  EXPECT_LT(program->schedule().arena * 5, program->schedule().unshared);
}

TEST(SessionTest, OutputsThatAreInputsOrConstantsAreCopies) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId same = b.node("Identity", {x});
  Graph graph = b.output(same).output(b.constant(Tensor::of(2.5f))).output(same).take();
  compute::Workers workers(1);
  const Session session(std::move(graph), workers);
  const Datum given(tensor_of<float>({2}, {1, 2}));
  const std::vector<Datum> results = session.run(std::span(&given, 1));
  EXPECT_EQ(list_of<float>(results[0].tensor), (std::vector<float>{1, 2}));
  EXPECT_NE(results[0].tensor.data(), given.tensor.data());
  EXPECT_EQ(list_of<float>(results[1].tensor), (std::vector<float>{2.5f}));
  EXPECT_EQ(list_of<float>(results[2].tensor), (std::vector<float>{1, 2}));
}

TEST(SessionTest, SixtyFourThreadsShareEightSessions) {
  compute::Workers workers(2);
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<std::vector<std::vector<float>>> expected;
  constexpr std::int64_t kBatches[] = {1, 2, 5};
  for (unsigned i = 0; i < 8; ++i) {
    sessions.push_back(std::make_unique<Session>(two_layers(i), workers));
    const Session plain(two_layers(i), workers, {.compile = false});
    expected.emplace_back();
    for (const std::int64_t batch : kBatches)
      expected.back().push_back(run(plain, varied({batch, 8}, i)));
  }
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 64; ++t)
    threads.emplace_back([&, t] {
      for (unsigned k = 0; k < 12; ++k) {
        const unsigned session = (t + k) % 8, shape = (t + k) % 3;
        expect_near(run(*sessions[session], varied({kBatches[shape], 8}, session)),
                    expected[session][shape]);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// Compiled programs and the interpreter agree. ONNX Runtime drops NaN in GlobalMaxPool, in MaxPool
// where it is not the first of a window, and as a bound of Clip.
TEST(SessionTest, NanIsPassedOnByEveryWayToRun) {
  const Tensor x = tensor_of<float>({1, 1, 2, 6}, {NAN, 1, -1, 3, -3, NAN, 2, NAN, -2, 0, 5, -5});
  const auto nan = [](GraphBuilder& b) { return b.constant(Tensor::of<float>(NAN)); };
  const auto one = [](GraphBuilder& b) { return b.constant(Tensor::of<float>(1)); };
  using Make = std::function<ValueId(GraphBuilder&, ValueId)>;
  const std::vector<std::pair<const char*, Make>> all{
      {"HardSigmoid", [](auto& b, ValueId in) { return b.node("HardSigmoid", {in}); }},
      {"MaxPool",
       [](auto& b, ValueId in) {
         return b.node("MaxPool", {in}, {{"kernel_shape", Attributes::Integers{2, 2}}});
       }},
      {"GlobalMaxPool", [](auto& b, ValueId in) { return b.node("GlobalMaxPool", {in}); }},
      {"Clip from NaN",
       [&](auto& b, ValueId in) {
         return b.node("Clip", {in, nan(b), one(b)});
       }},
      {"Clip to NaN",
       [&](auto& b, ValueId in) {
         return b.node("Clip", {in, one(b), nan(b)});
       }},
      {"LeakyRelu",
       [](auto& b, ValueId in) {
         return b.node("LeakyRelu", {in}, {{"alpha", NAN}});
       }},
      {"endless LeakyRelu",
       [](auto& b, ValueId in) {
         return b.node("LeakyRelu", {in}, {{"alpha", HUGE_VALF}});
       }},
  };
  compute::Workers workers(1);
  for (const auto& [name, make] : all) {
    GraphBuilder b;
    const ValueId in = b.input("x");
    const Graph graph = b.output(make(b, in)).take();
    const Datum given(x);
    const Tensor plain =
        Session(graph, workers, {.compile = false}).run(std::span(&given, 1))[0].tensor;
    const Tensor fast = Session(graph, workers).run(std::span(&given, 1))[0].tensor;
    std::size_t nans = 0;
    for (std::size_t i = 0; i < plain.values<float>().size(); ++i) {
      const float a = plain.values<float>()[i], c = fast.values<float>()[i];
      EXPECT_TRUE(a == c || (std::isnan(a) && std::isnan(c))) << name << ": " << a << ", " << c;
      nans += std::isnan(a) ? 1 : 0;
    }
    EXPECT_GT(nans, 0u) << name;
  }
}

}  // namespace
}  // namespace sluice::engine
