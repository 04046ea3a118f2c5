#include "memory/strategy/strategy.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "memory/strategy/block_table.h"
#include "memory/strategy/oracle_for_tests.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

struct Shape {
  const char* name;
  StrategyKind kind;
  std::size_t capacity, largest;  // of the arena and of a request
  int operations, check_every;
};

class StrategyProperties : public testing::TestWithParam<Shape> {};

// Mostly small, some large, as real programs ask.
std::size_t random_bytes(std::mt19937_64& random, std::size_t largest) {
  const auto bits = random() % std::bit_width(largest);
  return random() % (std::size_t{2} << bits) % (largest + 1);
}

TEST_P(StrategyProperties, HoldOverManyRandomOperations) {
  const Shape& shape = GetParam();
  Oracle oracle(shape.kind);
  std::mt19937_64 random(20260101);
  std::vector<Offset> out;
  const std::size_t half = round_up(shape.capacity / 2, kAlignment);
  oracle.extend(half);
  oracle.extend(shape.capacity - half);
  for (int i = 0; i < shape.operations && oracle.wrong().empty(); ++i) {
    // Phases of growth and of decline, so that full and empty both happen.
    const bool growing = (i / 4096) % 2 == 0;
    if (random() % 100 < (growing ? 60u : 40u)) {
      if (const auto offset = oracle.allocate(random_bytes(random, shape.largest)))
        out.push_back(*offset);
    } else if (!out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      oracle.free(out.back());
      out.pop_back();
    }
    if (i % shape.check_every == 0) oracle.check();
  }
  EXPECT_EQ(oracle.wrong(), "");
  for (const Offset offset : out) oracle.free(offset);
  oracle.check();
  EXPECT_EQ(oracle.wrong(), "");
}

TEST_P(StrategyProperties, HoldWhileTheArenaGrowsAndGranulesComeAndGo) {
  const Shape& shape = GetParam();
  Oracle oracle(shape.kind);
  std::mt19937_64 random(7);
  std::vector<Offset> out;
  for (int i = 0; i < 20'000 && oracle.wrong().empty(); ++i) {
    const auto dice = random() % 100;
    const std::size_t bytes = random_bytes(random, shape.largest);
    if (dice < 45) {
      if (random() % 8 == 0) oracle.extend_for(bytes);
      if (const auto offset = oracle.allocate(bytes, dice < 5)) out.push_back(*offset);
    } else if (dice < 92 && !out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      oracle.free(out.back());
      out.pop_back();
    } else if (dice < 95) {
      oracle.withdraw(random() % 8);
    } else if (!oracle.withdrawn().empty()) {
      auto at = oracle.withdrawn().begin();
      std::advance(at, random() % oracle.withdrawn().size());
      oracle.restore(at->first);
    }
    if (i % 500 == 0) oracle.check();
  }
  EXPECT_EQ(oracle.wrong(), "");
}

constexpr auto kFirst = StrategyKind::first_fit, kBest = StrategyKind::best_fit;
INSTANTIATE_TEST_SUITE_P(
    EveryStrategy, StrategyProperties,
    testing::Values(Shape{"FirstFitSmall", kFirst, 64 << 10, 8 << 10, 50'000, 20},
                    Shape{"FirstFitLarge", kFirst, 256 * kMiB, 4 * kMiB, 500'000, 10'000},
                    Shape{"BestFitSmall", kBest, 64 << 10, 8 << 10, 50'000, 20},
                    Shape{"BestFitLarge", kBest, 256 * kMiB, 4 * kMiB, 500'000, 10'000},
                    Shape{"BuddySmall", StrategyKind::buddy, (64 << 10) + 768, 8 << 10, 50'000, 20},
                    Shape{"BuddyLarge", StrategyKind::buddy, 300 * kMiB, 4 * kMiB, 500'000, 10'000},
                    Shape{"SlabSmall", StrategyKind::slab, 2 * kMiB, 80 << 10, 50'000, 50},
                    Shape{"SlabLarge", StrategyKind::slab, 256 * kMiB, 4 * kMiB, 500'000, 10'000}),
    [](const auto& shape) { return shape.param.name; });

class EveryStrategy : public testing::TestWithParam<StrategyKind> {};

TEST_P(EveryStrategy, HasANameThatIsUnderstood) {
  EXPECT_EQ(strategy_kind(to_string(GetParam())), GetParam());
  EXPECT_EQ(strategy_kind("worst_fit"), std::nullopt);
}

TEST_P(EveryStrategy, HasNothingWithoutAnArena) {
  const auto strategy = make_strategy(GetParam());
  EXPECT_EQ(strategy->allocate(1), std::nullopt);
  EXPECT_EQ(strategy->use().largest_free, 0u);
  EXPECT_EQ(strategy->missing(0), kAlignment);
}

TEST_P(EveryStrategy, GivesABlockForZeroBytes) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  const auto a = strategy->allocate(0), b = strategy->allocate(0);
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
}

TEST_P(EveryStrategy, RefusesSizesThatOverflow) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  for (const std::size_t bytes : {kNever, kNever - 255, kNever / 2 + 2, kMaxBlockBytes + 1}) {
    EXPECT_EQ(strategy->allocate(bytes), std::nullopt);
    EXPECT_EQ(strategy->missing(bytes), kNever);
  }
  EXPECT_GT(strategy->missing(kMaxBlockBytes), kMiB);
}

TEST_P(EveryStrategy, TakesTheWholeArenaAndGivesItBackWhole) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  std::vector<Offset> out;
  while (const auto offset = strategy->allocate(16 << 10)) out.push_back(*offset);
  EXPECT_EQ(out.size(), 64u);
  EXPECT_EQ(strategy->use().free, 0u);
  for (const Offset offset : out) EXPECT_EQ(strategy->free(offset), 16u << 10);
  EXPECT_EQ(strategy->use().largest_free, kMiB);
  EXPECT_EQ(strategy->use().peak_taken, kMiB);
}

TEST_P(EveryStrategy, MergesWhatIsAddedWithTheHoleAtTheEnd) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  strategy->extend(kMiB);
  EXPECT_EQ(strategy->use().largest_free, 2 * kMiB);
  ASSERT_TRUE(strategy->allocate(2 * kMiB));
}

#ifndef NDEBUG
TEST_P(EveryStrategy, EndsTheProgramWhenABlockIsFreedTwice) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  const auto offset = strategy->allocate(100);
  (void)strategy->allocate(100);
  strategy->free(*offset);
  EXPECT_DEATH(strategy->free(*offset), "not out");
}
#else
TEST_P(EveryStrategy, LeavesEverythingAsItIsWhenABlockIsFreedTwice) {
  const auto strategy = make_strategy(GetParam());
  strategy->extend(kMiB);
  const auto offset = strategy->allocate(100);
  (void)strategy->allocate(100);
  strategy->free(*offset);
  EXPECT_EQ(strategy->free(*offset), 0u);
  EXPECT_EQ(strategy->free(12345 * kAlignment), 0u);
  EXPECT_EQ(strategy->use().count, 1u);
}
#endif

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy, testing::ValuesIn(kStrategyKinds),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(NumberSet, FindsTheHighestNumberBelowAnother) {
  NumberSet set;
  std::set<std::size_t> want;
  EXPECT_EQ(set.below(kNever), kNever);
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t n = random() % (std::size_t{1} << (1 + random() % 22));
    if (random() % 2 == 0) {
      set.insert(n);
      want.insert(n);
    } else if (!want.empty()) {
      const auto gone = want.lower_bound(n) == want.end() ? want.begin() : want.lower_bound(n);
      set.erase(*gone);
      want.erase(gone);
    }
    for (const std::size_t end : {n, n + 1, random() % 5'000'000, kNever}) {
      const auto above = want.lower_bound(end);
      ASSERT_EQ(set.below(end), above == want.begin() ? kNever : *std::prev(above)) << end;
    }
  }
}

TEST(FirstFit, TakesTheLowestHoleThatFits) {
  const auto strategy = make_strategy(StrategyKind::first_fit);
  strategy->extend(kMiB);
  const auto a = strategy->allocate(8192), b = strategy->allocate(256), c = strategy->allocate(512);
  (void)strategy->allocate(256);
  ASSERT_TRUE(a && b && c);
  strategy->free(*a);
  strategy->free(*c);
  EXPECT_EQ(strategy->allocate(512), a);
}

TEST(BestFit, TakesTheSmallestHoleThatFits) {
  const auto strategy = make_strategy(StrategyKind::best_fit);
  strategy->extend(kMiB);
  const auto a = strategy->allocate(8192), b = strategy->allocate(256), c = strategy->allocate(512);
  (void)strategy->allocate(256);
  ASSERT_TRUE(a && b && c);
  strategy->free(*a);
  strategy->free(*c);
  EXPECT_EQ(strategy->allocate(512), c);
}

TEST(Buddy, RoundsToPowersOfTwo) {
  const auto strategy = make_strategy(StrategyKind::buddy);
  strategy->extend(kMiB);
  EXPECT_EQ(strategy->size_of(*strategy->allocate(513)), 1024u);
}

TEST(Slab, KeepsBlocksOfOneSizeSideBySide) {
  const auto strategy = make_strategy(StrategyKind::slab);
  strategy->extend(16 * kMiB);
  const auto a = strategy->allocate(1000);
  (void)strategy->allocate(100'000);
  (void)strategy->allocate(5000);
  EXPECT_EQ(*strategy->allocate(1000), *a + 1024);
}

TEST(Slab, PlacesASmallBlockAloneWhereNoSlabFits) {
  const auto strategy = make_strategy(StrategyKind::slab);
  strategy->extend(64 << 10);
  EXPECT_TRUE(strategy->allocate(60 << 10));  // its slab would be 8 times that
  EXPECT_TRUE(strategy->allocate(4 << 10));
  EXPECT_EQ(strategy->use().largest_free, 0u);
}

}  // namespace
}  // namespace sluice::memory
