// The plan cache: which plans are used, which are evicted, and what a killed writer leaves.
#include "engine/plan/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "engine/graph/graph_for_tests.h"
#include "engine/io/onnx_export.h"
#include "engine/open.h"
#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Graph gemm_softmax(std::int64_t k, std::int64_t n) {
  GraphBuilder b;
  const ValueId sum = b.node("MatMul", {b.input("x"), b.constant(varied({k, n}))});
  Graph graph = b.output(b.node("Softmax", {sum})).take();
  for (Node& node : graph.nodes) node.version = 20;
  return graph;
}

class PlanCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    write_onnx(gemm_softmax(64, 48), model_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  OpenOptions options(const std::string& version = "1") const {
    return {.session = {}, .plans = cache_, .version = version};
  }
  std::vector<float> run(const Session& session, std::int64_t rows) {
    const Datum given(varied({rows, 64}, 9));
    return list_of<float>(session.run(std::span(&given, 1))[0].tensor);
  }
  // Simulates a process that runs the model with that many rows.
  OpenModel start(std::int64_t rows, const std::string& version = "1") {
    OpenModel opened = open_model(model_, workers_, options(version));
    run(*opened.session, rows);
    kept_ = keep_plan(opened, cache_);
    return opened;
  }
  std::vector<fs::path> plans() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(cache_.folder)) all.push_back(entry.path());
    return all;
  }

  compute::Workers workers_{2};
  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("plan-cache-" + std::to_string(::getpid()));
  const fs::path model_ = folder_ / "model.onnx";
  const PlanCache cache_{folder_ / "plans", 1 << 20};
  bool kept_ = false;
};

TEST_F(PlanCacheTest, SecondStartUsesThePlanAndComputesTheSameResults) {
  const OpenModel first = start(5);
  EXPECT_EQ(first.from, "");
  EXPECT_TRUE(kept_);
  const OpenModel second = start(5);
  EXPECT_FALSE(kept_) << "the plan has it all";
  EXPECT_EQ(second.from, plan_file(cache_.folder, second.key));
  EXPECT_EQ(run(*second.session, 5), run(*first.session, 5));
}

TEST_F(PlanCacheTest, ShapesOfLaterStartsAreAdded) {
  start(5);
  start(7);
  EXPECT_TRUE(kept_);
  EXPECT_EQ(start(5).shapes, 2u);
  EXPECT_FALSE(kept_);
  EXPECT_EQ(plans().size(), 1u);
}

TEST_F(PlanCacheTest, PlanOfAnotherVersionIsRefusedWithTheReasonAndReplaced) {
  start(5);
  const OpenModel newer = start(5, "2");
  EXPECT_EQ(newer.from, "");
  EXPECT_THAT(newer.refused, HasSubstr("made for the version '1', this is '2'"));
  EXPECT_EQ(plans().size(), 1u);
  const OpenModel again = start(5, "2");
  EXPECT_EQ(again.refused, "");
  EXPECT_NE(again.from, "");
}

TEST_F(PlanCacheTest, NamedStalePlanIsCompiledAgainFromItsModel) {
  const OpenModel first = start(5);
  const fs::path named = folder_ / "named.plan";
  write_plan(named, first.session->plan(first.key));
  EXPECT_EQ(open_model(named, workers_, options()).from, named);
  const OpenModel stale = open_model(named, workers_, {.session = {}, .plans = {}, .version = "2"});
  EXPECT_EQ(stale.from, "");
  EXPECT_THAT(stale.refused, HasSubstr("named.plan: it was made for the version"));
  EXPECT_EQ(run(*stale.session, 5), run(*first.session, 5));
}

TEST_F(PlanCacheTest, DamagedPlanIsReplaced) {
  start(5);
  std::ofstream(plans()[0], std::ios::binary) << "no plan";
  const OpenModel opened = start(5);
  EXPECT_THAT(opened.refused, HasSubstr("it is no plan"));
  EXPECT_NE(start(5).from, "");
}

TEST_F(PlanCacheTest, FlippedBitIsDetectedAndTheModelIsCompiledAgain) {
  const OpenModel first = start(5);
  const std::vector<float> right = run(*first.session, 5);
  std::mt19937 random(3);  // NOLINT: the same each time
  for (int i = 0; i < 100; ++i) {
    const fs::path plan = plans()[0];
    std::fstream file(plan, std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(random() % fs::file_size(plan));
    file.seekg(at);
    const char flipped = static_cast<char>(file.get() ^ (1 << random() % 8));
    file.seekp(at);
    file.put(flipped);
    file.close();
    const OpenModel opened = start(5);
    EXPECT_EQ(opened.from, "") << at;
    EXPECT_THAT(opened.refused, HasSubstr(plan.string())) << at;
    EXPECT_EQ(run(*opened.session, 5), right) << at;
    EXPECT_NE(start(5).from, "") << "it is replaced";
  }
}

TEST_F(PlanCacheTest, PlanIsRecognizedByItsContent) {
  const OpenModel first = start(5);
  const fs::path named = folder_ / "compiled";
  write_plan(named, first.session->plan(first.key));
  EXPECT_EQ(open_model(named, workers_, options()).from, named);
}

TEST_F(PlanCacheTest, LeastRecentlyUsedPlansAreRemoved) {
  const auto put = [&](const std::string& model, std::uint64_t max_bytes) {
    Plan plan{.key = {model, "cpu", "", "fp32", "1"},
              .graph = gemm_softmax(64, 64),
              .shapes = {},
              .packed = {}};
    return PlanCache{cache_.folder, max_bytes}.put(plan);
  };
  const auto age = [&](const std::string& model, int hours) {
    fs::last_write_time(plan_file(cache_.folder, {model, "cpu", "", "fp32", "1"}),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const auto there = [&](const std::string& model) {
    return fs::exists(plan_file(cache_.folder, {model, "cpu", "", "fp32", "1"}));
  };
  EXPECT_TRUE(put("a", 1 << 20));
  EXPECT_TRUE(put("b", 1 << 20));
  age("a", 2);
  age("b", 3);
  PlanCache::touch(plan_file(cache_.folder, {"b", "cpu", "", "fp32", "1"}));
  EXPECT_TRUE(put("c", 2 * (64 * 64 * 4 + 1024)));
  EXPECT_FALSE(there("a"));
  EXPECT_TRUE(there("b"));
  EXPECT_TRUE(there("c"));
  EXPECT_FALSE(put("d", 1000)) << "it alone is too large";
  EXPECT_THAT(plans(), IsEmpty());
}

// A writer that is killed with SIGKILL at any moment leaves the old plan or the new one.
TEST(PlanKillTest, PlanIsCompleteWheneverItsWriterWasKilled) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / ("plan-kill-" + std::to_string(::getpid()));
  const fs::path file = folder / "x.plan";
  const auto plan = [](const std::string& model, std::int64_t k) {
    return Plan{.key = {model, "cpu", "", "fp32", "1"},
                .graph = gemm_softmax(k, 512),
                .shapes = {},
                .packed = {},
                .choices = {{"of", std::string(20'000, model[0])}}};
  };
  const Plan a = plan("a", 1024), b = plan("b", 1500);
  write_plan(file, a);
  std::mt19937 random(7);  // NOLINT: the same each time
  for (int i = 0; i < 40; ++i) {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) write_plan(file, b), write_plan(file, a);
    ::usleep(static_cast<useconds_t>(random() % 12'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    compute::Workers workers(1);
    const Plan found = read_plan(file, workers);
    const Plan& want = found.key == a.key ? a : b;
    ASSERT_EQ(found.key, want.key);
    ASSERT_EQ(found.choices, want.choices);
    const auto weights = [](const Graph& graph) {
      for (const Value& value : graph.values)
        if (value.constant) return list_of<float>(value.constant);
      return std::vector<float>();
    };
    ASSERT_EQ(weights(found.graph), weights(want.graph));
    ASSERT_LE(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2)
        << "the next writer removes what the last one left";
  }
  write_plan(file, a);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

// A plan names the model it was made from, but it may be forged.
TEST_F(PlanCacheTest, NamedPlanAddsNothingToTheCache) {
  const OpenModel first = start(5);
  Plan forged = first.session->plan(first.key);
  forged.graph = gemm_softmax(64, 48);
  for (Value& value : forged.graph.values)
    if (value.constant) std::fill_n(static_cast<float*>(value.constant.data()), 64 * 48, 0.0f);
  forged.shapes.clear(), forged.packed.clear();
  const fs::path named = folder_ / "forged.plan";
  write_plan(named, forged);
  fs::remove_all(cache_.folder);
  const OpenModel opened = open_model(named, workers_, options());
  run(*opened.session, 5);
  EXPECT_FALSE(keep_plan(opened, cache_));
  EXPECT_FALSE(fs::exists(plan_file(cache_.folder, opened.key)));
  EXPECT_EQ(run(*start(5).session, 5), run(*first.session, 5));
}

}  // namespace
}  // namespace sluice::engine
