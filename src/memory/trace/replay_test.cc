#include "memory/trace/replay.h"

#include <gmock/gmock.h>

#include <ctime>
#include <map>

#include "base/error.h"
#include "base/sanitized_for_tests.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;

Trace shipped(std::string_view name) {
  for (const auto& file : shipped_traces())
    if (file.name == name) return decode(file.bytes());
  throw Error(Code::not_found, "no such trace");
}

// Ten blocks of 10 MiB, every second of which is freed; then one of 40 MiB, which fits
// in no hole.
Trace comb() {
  TraceBuilder builder;
  std::uint64_t time = 0;
  for (std::uint64_t i = 0; i < 10; ++i) builder.allocated(++time, i, 10 * kMiB);
  for (std::uint64_t i = 0; i < 10; i += 2) builder.freed(++time, i);
  builder.allocated(++time, 100, 40 * kMiB);
  builder.freed(++time, 100);
  return std::move(builder).finish({});
}

TEST(Replay, WithoutACeilingItFindsTheMinimumMemoryThatServesEverything) {
  ReplayOptions options;
  options.growth = 2 * kMiB;
  options.passes = 1;
  const auto result = replay(comb(), StrategyKind::first_fit, options);
  EXPECT_EQ(result.figures.failures, 0u);
  EXPECT_EQ(result.figures.peak_used, 100 * kMiB);
  EXPECT_EQ(result.figures.peak_committed, 100 * kMiB);  // what lay in holes was remapped
  EXPECT_EQ(result.figures.remapped_bytes, 40 * kMiB);
  EXPECT_EQ(result.figures.efficiency, 1);
  ASSERT_TRUE(result.roomy.has_value());
  EXPECT_EQ(result.roomy->peak_committed, 140 * kMiB);
  EXPECT_NEAR(result.roomy->external, 40.0 / 140, 1e-9);
  EXPECT_EQ(result.roomy->remapped_bytes, 0u);
}

TEST(Replay, WithTooLittleMemoryRefusalsAreCounted) {
  ReplayOptions options;
  options.ceiling = 80 * kMiB;
  options.passes = 1;
  const auto result = replay(comb(), StrategyKind::best_fit, options);
  EXPECT_EQ(result.figures.failures, 2u);  // the last two of ten; the large one fits later
  EXPECT_EQ(result.figures.peak_committed, 80 * kMiB);
  EXPECT_FALSE(result.roomy.has_value());
}

// The results of a shipped trace; computed once.
const std::vector<ReplayResult>& results_of(const std::string& name) {
  static std::map<std::string, std::vector<ReplayResult>> known;
  auto& results = known[name];
  if (!results.empty()) return results;
  ReplayOptions options;
  options.passes = 1;
  for (const auto kind : kStrategyKinds) results.push_back(replay(shipped(name), kind, options));
  return results;
}

TEST(Replay, InternalAndExternalFragmentationMultiplyToTheEfficiency) {
  for (const auto& result : results_of("inference"))
    for (const auto& figures : {result.figures, *result.roomy}) {
      EXPECT_NEAR((1 - figures.internal) * (1 - figures.external), figures.efficiency, 1e-9);
      EXPECT_GE(figures.internal, 0);
      EXPECT_GE(figures.external, 0);
    }
}

// Large blocks in fragments: nearly each one is remapped or grows the pool. A walk over all blocks
// for each of them would take a minute.
TEST(Replay, ManyLargeBlocksInFragmentsTakeSeconds) {
  TraceBuilder builder;
  std::uint64_t time = 0;
  constexpr std::uint64_t kBlocks = 40'000;
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    builder.allocated(++time, i, 2 * kMiB + 512 * (i % 3));
  for (std::uint64_t i = 0; i < kBlocks; i += 2) builder.freed(++time, i);
  for (std::uint64_t i = 0; i < kBlocks / 2; ++i) builder.allocated(++time, kBlocks + i, 5 * kMiB);
  const Trace trace = std::move(builder).finish({});
  ReplayOptions options;
  options.passes = 1;
  const std::clock_t begun = std::clock();  // the processor's time: the machine may be busy
  for (const auto kind : {StrategyKind::first_fit, StrategyKind::buddy}) {
    const auto result = replay(trace, kind, options);
    EXPECT_EQ(result.figures.failures, 0u);
    EXPECT_GT(result.figures.remapped_bytes, 0u);
  }
  EXPECT_LT((std::clock() - begun) / CLOCKS_PER_SEC, 20 * kPatience);
}

TEST(Replay, TimesAreThoseOfRealOperations) {
  ReplayOptions options;
  options.passes = 3;
  const auto times = replay(shipped("inference"), StrategyKind::buddy, options).times;
  EXPECT_GT(times.allocate_p50, 0);
  EXPECT_LE(times.allocate_p50, times.allocate_p99);
  EXPECT_LE(times.free_p50, times.free_p99);
  EXPECT_LT(times.allocate_p50, 1e5);
}

TEST(Replay, ProgressGoesFromBeginningToEnd) {
  std::vector<double> seen;
  ReplayOptions options;
  options.passes = 1;
  replay(comb(), StrategyKind::slab, options, [&](double done) { seen.push_back(done); });
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.back(), 0.5);
  EXPECT_LE(seen.back(), 1);
}

class ShippedTrace : public testing::TestWithParam<const char*> {};

TEST_P(ShippedTrace, UsesAtLeast95PercentOfItsMemoryWithTheRecommendedStrategy) {
  const auto& results = results_of(GetParam());
  const auto advice = recommend(results);
  const auto& chosen = *std::ranges::find(results, advice.strategy, &ReplayResult::strategy);
  EXPECT_EQ(chosen.figures.failures, 0u);
  EXPECT_GE(chosen.figures.efficiency, 0.95);
  EXPECT_LT(chosen.figures.external, 0.05);
  EXPECT_LT(chosen.figures.stranded, 0.05);
  ASSERT_TRUE(chosen.spare.has_value());
  EXPECT_GE(chosen.spare->efficiency, 0.95);
  EXPECT_LE(chosen.spare->remapped_bytes, chosen.figures.remapped_bytes);
}

TEST_P(ShippedTrace, FitsInLessThanPyTorchReserved) {
  const auto trace = shipped(GetParam());
  const auto& results = results_of(GetParam());
  const auto& chosen =
      *std::ranges::find(results, recommend(results).strategy, &ReplayResult::strategy);
  EXPECT_LT(chosen.figures.peak_committed, trace.header.peer->peak_reserved);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedTrace, testing::Values("inference", "training"),
                         [](const auto& test) { return std::string(test.param); });

ReplayResult made(StrategyKind kind, std::size_t committed, std::uint64_t remapped,
                  std::uint64_t failures = 0) {
  ReplayResult result;
  result.strategy = kind;
  result.figures.peak_committed = committed;
  result.figures.remapped_bytes = remapped;
  result.figures.failures = failures;
  result.figures.efficiency = 0.97;
  return result;
}

TEST(Recommend, PrefersTheLeastMemoryThenTheLeastRemapping) {
  const std::vector results{made(StrategyKind::first_fit, 1000 * kMiB, 50 * kMiB),
                            made(StrategyKind::best_fit, 1005 * kMiB, 20 * kMiB),
                            made(StrategyKind::buddy, 1500 * kMiB, 0)};
  const auto advice = recommend(results);
  EXPECT_EQ(advice.strategy, StrategyKind::best_fit);
  EXPECT_THAT(advice.reason, HasSubstr("97.0 % of which is in use at the peak"));
  EXPECT_THAT(advice.reason, HasSubstr("first_fit needs about as much"));
  EXPECT_THAT(advice.reason, HasSubstr("buddy takes 1.5 GiB"));
}

TEST(Recommend, PrefersTheFasterOfEquals) {
  std::vector results{made(StrategyKind::first_fit, 1000 * kMiB, 0),
                      made(StrategyKind::best_fit, 1002 * kMiB, 0)};
  results[0].times.quietest_pair = 300;
  results[1].times.quietest_pair = 100;
  EXPECT_EQ(recommend(results).strategy, StrategyKind::best_fit);
  results[0].times.quietest_pair = 120;  // no difference that a second run would show again
  EXPECT_EQ(recommend(results).strategy, StrategyKind::first_fit);
}

TEST(Recommend, ServingMoreCountsMoreThanMemory) {
  const std::vector results{made(StrategyKind::first_fit, 1000 * kMiB, 0, 3),
                            made(StrategyKind::slab, 2000 * kMiB, 0, 1)};
  const auto advice = recommend(results);
  EXPECT_EQ(advice.strategy, StrategyKind::slab);
  EXPECT_THAT(advice.reason, HasSubstr("refused 1 requests"));
}

}  // namespace
}  // namespace sluice::memory
