#include "engine/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "engine/graph/graph_for_tests.h"
#include "engine/io/content_hash.h"
#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    GraphBuilder b;
    const ValueId x = b.input("x");
    const ValueId sum = b.node(
        "Add", {b.node("MatMul", {x, b.constant(varied({64, 48}))}), b.constant(varied({48}, 3))});
    graph_ = b.output(b.node("Softmax", {b.node("Gelu", {sum})})).take();
    for (Node& node : graph_.nodes) node.version = 20;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Plan compiled() {
    const Session session(graph_, workers_);
    const TensorType type{DType::f32, {5, 64}};
    EXPECT_TRUE(session.compiled(std::span(&type, 1)).program);
    return session.plan({"model", "cpu", "", "fp32", "1"});
  }
  std::vector<float> run(const Session& session, std::int64_t rows) {
    const Datum given(varied({rows, 64}, 9));
    return list_of<float>(session.run(std::span(&given, 1))[0].tensor);
  }
  std::string bytes() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }

  compute::Workers workers_{2};
  const fs::path folder_ = fs::path(::testing::TempDir()) / ("plan-" + std::to_string(::getpid()));
  const fs::path file_ = folder_ / "x.plan";
  Graph graph_;
};

TEST_F(PlanTest, PlanReadBackRunsAsBefore) {
  write_plan(file_, compiled());
  Plan plan = read_plan(file_, workers_);
  EXPECT_EQ(plan.key, (PlanKey{"model", "cpu", "", "fp32", "1"}));
  EXPECT_EQ(read_plan_key(file_), plan.key);
  ASSERT_EQ(plan.shapes.size(), 1u);
  const Session before(graph_, workers_), after(std::move(plan), workers_);
  EXPECT_EQ(run(after, 5), run(before, 5));  // planned
  EXPECT_EQ(run(after, 7), run(before, 7));  // compiled from the plan's model
}

TEST_F(PlanTest, StalePlanReportsWhatDiffers) {
  const PlanKey made{"model", "AVX2", "", "fp32", "1"};
  EXPECT_EQ(why_stale(made, made), "");
  EXPECT_THAT(why_stale(made, {"model", "AVX3", "", "fp32", "1"}),
              HasSubstr("'AVX2', this is 'AVX3'"));
  EXPECT_THAT(why_stale(made, {"model", "AVX2", "", "fp32", "2"}), HasSubstr("version '1'"));
  EXPECT_THAT(why_stale({"model", "H200", "driver 570", "fp16", "1"},
                        {"model", "H200", "driver 580", "fp16", "1"}),
              HasSubstr("driver and libraries 'driver 570', this is 'driver 580'"));
}

TEST_F(PlanTest, FlippedBitOrTruncationIsRefused) {
  write_plan(file_, compiled());
  const std::string good = bytes();
  unsigned seed = 5;
  for (std::size_t i = 0; i < 1000; ++i) {
    std::string bad = good;
    seed = seed * 1664525u + 1013904223u;
    const std::size_t at = i < 32 ? i : (seed >> 4) % bad.size();
    if (i % 4 == 3)
      bad.resize(at);
    else
      bad[at] = static_cast<char>(bad[at] ^ (1 << seed % 8));
    put(bad);
    for (const bool model : {false, true}) try {
        model ? (void)read_plan_model(file_, workers_) : (void)read_plan(file_, workers_);
        ADD_FAILURE() << (i % 4 == 3 ? "cut at " : "flipped at ") << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
        EXPECT_THAT(error.reason(), StartsWith(file_.string() + ": it is "));
      }
  }
  put(good + "x");
  EXPECT_THROW(read_plan(file_, workers_), Error);
}

TEST_F(PlanTest, PlanOfAnotherVersionIsReported) {
  write_plan(file_, compiled());
  std::string other = bytes();
  other[7] = '2';
  put(other);
  EXPECT_TRUE(is_plan(file_));
  try {
    read_plan_key(file_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a plan of another version: compile the model again"));
  }
  put("no plan");
  EXPECT_FALSE(is_plan(file_));
}

TEST_F(PlanTest, FileHashDoesNotDependOnChunks) {
  std::string text(3'500'003, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  for (const std::size_t size : {std::size_t{0}, std::size_t{9}, std::size_t{1} << 20, text.size()})
    for (const std::size_t part : {std::size_t{1000}, std::size_t{1} << 20, text.size()}) {
      const std::string_view all = std::string_view(text).substr(0, size);
      FileHash parts;
      for (std::size_t at = 0; at < size; at += part) parts.add(all.substr(at, part));
      EXPECT_EQ(parts.finish(), file_hash(all, workers_)) << size << " by " << part;
    }
}

TEST_F(PlanTest, PackedWeightsOfAnotherSizeAreNotRead) {
  Plan plan = compiled();
  ASSERT_FALSE(plan.packed.empty());
  for (PackedConstant& packed : plan.packed) packed.result = Tensor(DType::f32, {1});
  const Session session(std::move(plan), workers_), plain(graph_, workers_, {.compile = false});
  const TensorType type{DType::f32, {5, 64}};
  EXPECT_THAT(session.compiled(std::span(&type, 1)).why_not, HasSubstr("packed weights"));
  EXPECT_EQ(run(session, 5), run(plain, 5));
}

TEST_F(PlanTest, PackedWeightsMayBeginAnywhereInTheFile) {
  write_plan(file_, compiled());
  const Plan plan = read_plan(file_, workers_);
  ASSERT_FALSE(plan.packed.empty());
  for (const PackedConstant& packed : plan.packed)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed.result.data()) % 64, 0u);
}

// A plan may hold other weights than those its graphs were compiled with.
TEST_F(PlanTest, ConstantsOfAnotherShapeOrTypeAreRefusedOrRun) {
  const Plan whole = compiled();
  std::vector<Tensor> others{Tensor::of(1.0f), Tensor(DType::f32, {0}), Tensor(DType::u8, {48})};
  for (std::size_t g = 0; g < whole.shapes.size(); ++g)
    for (std::size_t v = 0; v < whole.shapes[g].values.size(); ++v)
      for (std::size_t o = 0; o <= others.size(); ++o) {
        Plan plan = whole;
        Tensor& constant = plan.shapes[g].values[v].constant;
        if (!constant) break;
        Shape half = constant.shape();
        if (half.rank() > 0) half[0] /= 2;
        constant = o < others.size() ? others[o] : Tensor(constant.dtype(), half);
        std::fill_n(static_cast<char*>(constant.data()), constant.bytes(), '\0');
        try {
          write_plan(file_, plan);
          const Session session(read_plan(file_, workers_), workers_);
          run(session, 5);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
        }
      }
}

TEST_F(PlanTest, GraphWithOtherOutputsThanTheModelIsRefused) {
  const Plan whole = compiled();
  Plan fewer = whole, more = whole, other = whole;
  fewer.shapes[0].outputs.clear();
  more.shapes[0].outputs.push_back(more.shapes[0].outputs[0]);
  other.graph[other.graph.outputs[0]].dtype = DType::i64;
  for (const Plan& plan : {fewer, more, other}) {
    try {
      write_plan(file_, plan);
      read_plan(file_, workers_);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << error.what();
    }
  }
}

}  // namespace
}  // namespace sluice::engine
