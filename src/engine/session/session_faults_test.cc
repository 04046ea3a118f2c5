// Sessions on a fake GPU that runs out of memory, fails and recovers; they lose no call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "engine/exec/cpu/cpu_program.h"
#include "engine/graph/graph_for_tests.h"
#include "engine/ops/one_op_for_tests.h"
#include "engine/session/gpu_for_tests.h"
#include "engine/session/session.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kWide = 8;

// A named input [batch, 8].
void name_batch(Graph& graph) {
  for (const ValueId id : graph.inputs) graph[id].dims = {{-1, "batch"}, {kWide, ""}};
}

// A graph with independent batch items.
Graph independent_batch(unsigned seed = 1) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId hidden = b.node(
      "Gemm", {x, b.constant(varied({kWide, 16}, seed)), b.constant(varied({16}, seed + 1))});
  const ValueId y =
      b.node("Softmax",
             {b.node("MatMul", {b.node("Relu", {hidden}), b.constant(varied({16, 4}, seed + 2))})},
             {{"axis", std::int64_t{-1}}});
  Graph graph = b.output(y).take();
  name_batch(graph);
  return graph;
}

// A graph that subtracts the mean of all batch items from each.
Graph mixed_batch() {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId mean = b.node("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{0}}});
  Graph graph = b.output(b.node("Sub", {x, mean})).take();
  name_batch(graph);
  return graph;
}

Tensor run_on(const Session& session, const Tensor& x) {
  const Datum given(x);
  return session.run(std::span(&given, 1))[0].tensor;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class SessionFaultsTest : public testing::Test {
 protected:
  Session on_gpu(Graph graph, SessionOptions options = {}) {
    return Session(std::move(graph), workers, std::make_unique<FakeGpu>(state), options);
  }
  void pass(double seconds) { state->now_s = state->now_s + seconds; }

  compute::Workers workers{2};
  std::shared_ptr<FakeGpuState> state = std::make_shared<FakeGpuState>();
};

// ---- out of memory ----------------------------------------------------------------------------

TEST_F(SessionFaultsTest, BatchIsHalvedUntilItFitsWithTheSameBits) {
  const Session plain(independent_batch(), workers);
  const Session session = on_gpu(independent_batch());
  state->max_batch = 6;
  for (const std::int64_t rows : {1, 6, 7, 48, 51}) {
    const Tensor x = varied({rows, kWide}, 9);
    EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x))) << rows;
  }
  EXPECT_EQ(session.gpu_failure(), "");
  // 1; 6; 7 as 4 + 3; 48 as 8 of 6; 51 as 12 of 4 and 3
  EXPECT_EQ(state->finished, 1 + 1 + 2 + 8 + 13);
}

TEST_F(SessionFaultsTest, BatchThatFittedIsRememberedAndTheFullBatchIsRetriedLater) {
  const Session session = on_gpu(independent_batch());
  const Tensor x = varied({16, kWide}, 9);
  state->max_batch = 4;
  run_on(session, x);
  const int first = state->runs.exchange(0);
  run_on(session, x);
  EXPECT_EQ(first, 2 + 4);  // 16 and 8 in vain
  EXPECT_EQ(state->runs, 4);
  state->max_batch = 100;
  pass(0.9);
  state->runs = 0;
  run_on(session, x);
  EXPECT_EQ(state->runs, 4);
  pass(0.2);
  state->runs = 0;
  run_on(session, x);
  run_on(session, x);
  EXPECT_EQ(state->runs, 2);
}

TEST_F(SessionFaultsTest, CachedMemoryIsReleasedFirst) {
  const Session session = on_gpu(independent_batch());
  const Tensor x = varied({16, kWide}, 9);
  run_on(session, x);
  state->kept = 1000;
  state->finished = 0;
  run_on(session, x);
  EXPECT_EQ(state->finished, 1);  // not split
  EXPECT_GE(state->trims, 1);
}

TEST_F(SessionFaultsTest, SingleRowThatDoesNotFitRunsOnTheCpu) {
  const Session session = on_gpu(independent_batch()), plain(independent_batch(), workers);
  state->max_batch = 0;
  for (const std::int64_t rows : {1, 5}) {
    const Tensor x = varied({rows, kWide}, 9);
    EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  }
  EXPECT_EQ(state->finished, 0);
  EXPECT_EQ(session.gpu_failure(), "");  // the device is healthy
  const int tried = state->runs;
  run_on(session, varied({5, kWide}, 9));
  EXPECT_EQ(state->runs, tried);  // not retried for a while
}

TEST_F(SessionFaultsTest, BatchThatCannotBeSplitRunsOnTheCpu) {
  const Session session = on_gpu(mixed_batch()), plain(mixed_batch(), workers);
  state->max_batch = 3;
  const Tensor x = varied({8, kWide}, 9);
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  EXPECT_EQ(state->finished, 0);
  EXPECT_TRUE(
      same_bits(run_on(session, varied({3, kWide}, 9)), run_on(plain, varied({3, kWide}, 9))));
  EXPECT_EQ(state->finished, 1);
}

TEST_F(SessionFaultsTest, MemoryLimitOfASessionSplitsBatchesOnTheCpu) {
  GraphBuilder b;
  const ValueId x = b.input("x");
  const ValueId wide = b.node("MatMul", {x, b.constant(varied({kWide, 2048}))});
  const ValueId sum = b.node("Softmax", {wide}, {{"axis", std::int64_t{-1}}});
  Graph graph = b.output(b.node("MatMul", {sum, b.constant(varied({2048, 2}))})).take();
  name_batch(graph);
  const Session plain(graph, workers), limited(graph, workers, {.memory = 1'200'000});
  const Tensor batch = varied({256, kWide}, 3);  // 2 MiB of intermediates
  EXPECT_TRUE(same_bits(run_on(limited, batch), run_on(plain, batch)));
  EXPECT_TRUE(same_bits(run_on(limited, batch), run_on(plain, batch)));
  const Session none(graph, workers, {.memory = 10'000});
  EXPECT_THROW(run_on(none, batch), Error);
}

// ---- a device that fails ----------------------------------------------------------------------

TEST_F(SessionFaultsTest, CallThatFailsOnTheGpuFinishesOnTheCpu) {
  const Session session = on_gpu(independent_batch()), plain(independent_batch(), workers);
  const Tensor x = varied({5, kWide}, 9);
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  state->faults = 1;
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  EXPECT_THAT(session.gpu_failure(), HasSubstr("fell off the bus"));
  EXPECT_EQ(state->finished, 1);
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  EXPECT_EQ(state->runs, 2);  // the GPU is not used
}

TEST_F(SessionFaultsTest, GpuIsUsedAgainOnceItRecovers) {
  const Session session = on_gpu(independent_batch()), plain(independent_batch(), workers);
  const Tensor x = varied({5, kWide}, 9);
  state->lost = true;
  run_on(session, x);
  pass(1);
  run_on(session, x);
  EXPECT_EQ(state->revivals, 1);
  EXPECT_THAT(session.gpu_failure(), HasSubstr("still off the bus"));
  state->lost = false;
  pass(2);
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  EXPECT_EQ(state->revivals, 2);
  EXPECT_EQ(state->finished, 1);
  EXPECT_EQ(state->compiles, 2);  // earlier programs are gone
  EXPECT_EQ(session.gpu_failure(), "");
}

TEST_F(SessionFaultsTest, RecoveryAttemptsBackOffAndDoNotStop) {
  const Session session = on_gpu(independent_batch());
  const Tensor x = varied({2, kWide}, 9);
  state->lost = true;
  run_on(session, x);
  std::vector<double> pauses;
  for (double last = 0; state->now_s < 2000; pass(0.5)) {
    const int before = state->revivals;
    run_on(session, x);
    if (state->revivals == before) continue;
    pauses.push_back(state->now_s - last);
    last = state->now_s;
  }
  ASSERT_GE(pauses.size(), 12u);
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(pauses[i], std::min(300.0, static_cast<double>(1 << i)), 0.6) << i;
  EXPECT_NEAR(pauses.back(), 300, 0.6);
}

TEST_F(SessionFaultsTest, PermanentFaultIsReportedAndNotRetried) {
  const Session session = on_gpu(independent_batch());
  const Tensor x = varied({2, kWide}, 9);
  state->dead = true;
  run_on(session, x);
  for (int i = 0; i < 5; ++i) {
    pass(1000);
    run_on(session, x);
  }
  EXPECT_EQ(state->revivals, 1);
  EXPECT_EQ(session.gpu_failure(), "dead for this process");
}

TEST_F(SessionFaultsTest, InputsThatRepeatedlyCrashTheGpuRunOnTheCpu) {
  const Session session = on_gpu(independent_batch());
  const Tensor bad = varied({7, kWide}, 9), good = varied({5, kWide}, 9);
  for (int i = 0; i < 2; ++i) {
    state->faults = 1;
    run_on(session, bad);
    pass(1000);
    run_on(session, good);
  }
  EXPECT_EQ(session.gpu_failure(), "");
  state->faults = 1;
  run_on(session, bad);
  EXPECT_EQ(state->faults, 1);  // the GPU was not used
  state->faults = 0;
  state->finished = 0;
  run_on(session, good);
  EXPECT_EQ(state->finished, 1);
}

TEST_F(SessionFaultsTest, VetoKeepsCallsOffTheGpuWhileItLasts) {
  std::string why = "on probation";
  const Session session = on_gpu(independent_batch(), {.veto = [&] { return why; }});
  const Tensor x = varied({5, kWide}, 9);
  run_on(session, x);
  EXPECT_EQ(state->runs, 0);
  EXPECT_EQ(session.gpu_failure(), "on probation");
  why.clear();
  run_on(session, x);
  EXPECT_EQ(state->finished, 1);
}

TEST_F(SessionFaultsTest, ProgramsAreCompiledForTheCpuWhileTheGpuIsLost) {
  const Session session = on_gpu(independent_batch());
  const TensorType type{DType::f32, {5, kWide}};
  EXPECT_FALSE(
      dynamic_cast<const CpuProgram*>(session.compiled(std::span(&type, 1)).program.get()));
  state->lost = true;
  run_on(session, varied({5, kWide}, 9));
  EXPECT_TRUE(dynamic_cast<const CpuProgram*>(session.compiled(std::span(&type, 1)).program.get()));
}

TEST_F(SessionFaultsTest, InvalidInputIsNotAGpuFailure) {
  const Session session = on_gpu(independent_batch());
  EXPECT_THROW(run_on(session, varied({5, kWide + 1}, 9)), Error);
  EXPECT_EQ(session.gpu_failure(), "");
}

// ---- reporting --------------------------------------------------------------------------------

TEST_F(SessionFaultsTest, FallbacksForLackOfMemoryAreCounted) {
  const Session session = on_gpu(independent_batch());
  const auto before = compute::process_fallbacks();
  run_on(session, varied({5, kWide}, 9));
  EXPECT_EQ(session.fallbacks().total(), 0u);
  state->max_batch = 0;
  for (int i = 0; i < 3; ++i) run_on(session, varied({5, kWide}, 9));
  EXPECT_EQ(session.fallbacks().of(Fallback::out_of_memory), 3u);
  EXPECT_EQ(session.fallbacks().total(), 3u);
  EXPECT_EQ(compute::process_fallbacks()[0], before[0] + 3);
  EXPECT_THAT(describe(session.fallbacks()), HasSubstr("3 calls"));
}

TEST_F(SessionFaultsTest, FallbacksFromALostGpuAreCounted) {
  std::string veto;
  const Session session = on_gpu(independent_batch(), {.veto = [&] { return veto; }});
  const Tensor x = varied({5, kWide}, 9);
  state->lost = true;
  for (int i = 0; i < 4; ++i) run_on(session, x);
  EXPECT_EQ(session.fallbacks().of(Fallback::lost), 4u);
  EXPECT_THAT(session.fallbacks().last, HasSubstr("fell off the bus"));
  veto = "on probation";
  run_on(session, x);
  EXPECT_EQ(session.fallbacks().of(Fallback::vetoed), 1u);
  EXPECT_EQ(session.fallbacks().last, "on probation");
}

TEST_F(SessionFaultsTest, SessionWithoutAGpuHasNoFallbacks) {
  const Session session(independent_batch(), workers);
  run_on(session, varied({5, kWide}, 9));
  EXPECT_EQ(session.fallbacks().total(), 0u);
}

TEST_F(SessionFaultsTest, TransientFailureDoesNotMarkTheGpuAsLost) {
  const Session session = on_gpu(independent_batch()), plain(independent_batch(), workers);
  const Tensor x = varied({5, kWide}, 9);
  for (int i = 0; i < 5; ++i) {
    state->transient_failures = 2;
    EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
    run_on(session, x);
    EXPECT_EQ(session.gpu_failure(), "");
    run_on(session, x);  // works
  }
  EXPECT_EQ(session.fallbacks().of(Fallback::transient), 10u);
  EXPECT_EQ(state->finished, 5);
  EXPECT_EQ(state->compiles, 1);
}

TEST_F(SessionFaultsTest, RepeatedTransientFailuresMarkTheGpuAsLost) {
  const Session session = on_gpu(independent_batch());
  const Tensor x = varied({5, kWide}, 9);
  state->transient_failures = 3;
  for (int i = 0; i < 3; ++i) run_on(session, x);
  EXPECT_THAT(session.gpu_failure(), HasSubstr("busy for the moment"));
}

TEST_F(SessionFaultsTest, BadIndexNamesItsNodeOnCpuAndGpu) {
  const auto embedding = [] {
    GraphBuilder b;
    const ValueId ids = b.input("ids", DType::i64);
    return b.output(b.node("Gather", {b.constant(varied({10, 4}, 1)), ids})).take();
  };
  const Session session = on_gpu(embedding()), plain(embedding(), workers);
  for (const std::int64_t bad : {std::int64_t{10}, std::int64_t{-11}, std::int64_t{1} << 40}) {
    const Datum ids(Tensor::of(std::span<const std::int64_t>(std::vector<std::int64_t>{3, bad})));
    for (const Session* one : {&session, &plain}) try {
        one->run(std::span(&ids, 1));
        ADD_FAILURE() << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::invalid_argument);
        EXPECT_THAT(error.what(), HasSubstr("Gather node 'Gather"));
      }
  }
  EXPECT_EQ(session.gpu_failure(), "");
  EXPECT_EQ(session.fallbacks().total(), 0u);
}

// ---- many threads -----------------------------------------------------------------------------

TEST_F(SessionFaultsTest, EightThreadsLoseNoCallsToAnUnstableGpu) {
  const Session session = on_gpu(independent_batch(), {.gpu_return = {.first_backoff_s = 1e-3}});
  const Session plain(independent_batch(), workers);
  state->max_batch = 5;
  constexpr int kCalls = 60;
  std::atomic<int> right = 0, turn = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const int now = ++turn;
        if (now % 16 == 0) state->lost = true;
        if (now % 16 == 5) state->lost = false;
        if (now % 23 == 0) state->faults = 1;
        pass(0.01);
        const Tensor x = varied({1 + (static_cast<unsigned>(i) + t) % 9, kWide}, t);
        if (same_bits(run_on(session, x), run_on(plain, x))) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8 * kCalls);
  EXPECT_GT(state->revivals, 1);
  EXPECT_GT(state->finished, 0);
}

TEST_F(SessionFaultsTest, OneCallerAtATimeRevivesTheGpu) {
  const Session session = on_gpu(independent_batch());
  state->lost = true;
  run_on(session, varied({2, kWide}, 9));
  pass(1.5);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] { run_on(session, varied({2, kWide}, t)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(state->revivals, 1);
}

// A call that began before the GPU failed fails after its recovery: the failure is outdated.
TEST_F(SessionFaultsTest, OldFailureDoesNotEndANewGeneration) {
  const Session session = on_gpu(independent_batch()), plain(independent_batch(), workers);
  const Tensor x = varied({5, kWide}, 9), other = varied({2, kWide}, 9);
  run_on(session, x);
  bool nested = false;
  state->on_run = [&] {  // while x is on the GPU, another call loses it and a third revives it
    if (std::exchange(nested, true)) return;
    state->faults = 1;
    run_on(session, other);
    pass(10);
    run_on(session, other);
  };
  EXPECT_TRUE(same_bits(run_on(session, x), run_on(plain, x)));
  EXPECT_EQ(state->revivals, 1);
  EXPECT_EQ(session.gpu_failure(), "");
}

}  // namespace
}  // namespace sluice::engine
