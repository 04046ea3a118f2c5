#include "engine/exec/algorithm_cache.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

TEST(AlgorithmCache, ReturnsStoredChoices) {
  AlgorithmCache table;
  EXPECT_EQ(table.find("gemm"), nullptr);
  table.set("gemm", "a");
  table.set("gemm", "b");
  ASSERT_NE(table.find("gemm"), nullptr);
  EXPECT_EQ(*table.find("gemm"), "b");
  table.erase("gemm");
  table.erase("gemm");
  EXPECT_EQ(table.find("gemm"), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
}

TEST(AlgorithmCache, StaysWithinItsByteLimit) {
  AlgorithmCache table(10'000);
  for (int i = 0; i < 10'000; ++i) {
    table.set("gemm of " + std::to_string(i), std::string(100, 'x'));
    ASSERT_LE(table.bytes(), 10'000u);
  }
  EXPECT_GT(table.all().size(), 70u);
  EXPECT_LT(table.all().size(), 100u);
}

TEST(AlgorithmCache, EvictsTheLeastRecentlyUsedEntry) {
  AlgorithmCache table(30);  // ten of three bytes
  for (char c = 'a'; c < 'a' + 10; ++c) table.set(std::string(1, c), "xx");
  EXPECT_NE(table.find("a"), nullptr);
  table.set("z", "xx");
  EXPECT_NE(table.find("a"), nullptr);
  EXPECT_EQ(table.find("b"), nullptr);
}

TEST(AlgorithmCache, ChoiceRemainsValidAfterEviction) {
  AlgorithmCache table(10);
  table.set("a", "first");
  const AlgorithmChoice choice = table.find("a");
  table.set("b", "secondsecond");
  EXPECT_EQ(table.find("a"), nullptr);
  EXPECT_EQ(*choice, "first");
  EXPECT_EQ(*table.find("b"), "secondsecond");  // too large, but the newest
}

TEST(AlgorithmCache, MergedChoicesDoNotReplaceKnownOnes) {
  AlgorithmCache table;
  table.set("a", "measured here");
  table.merge({{"a", "brought"}, {"b", "brought"}});
  EXPECT_EQ(table.all(), (AlgorithmCache::Choices{{"a", "measured here"}, {"b", "brought"}}));
}

}  // namespace
}  // namespace sluice::engine
