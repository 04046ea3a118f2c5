#include "engine/encoder/plan_chunks.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::engine {
namespace {

TEST(PlanChunksTest, EverySequenceIsInOneChunk) {
  std::mt19937 random(4);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::size_t> lengths(random() % 60);
    for (std::size_t& length : lengths) length = 1 + random() % 512;
    std::vector<int> seen(lengths.size());
    for (const Chunk& chunk : plan_chunks(lengths, 1 + random() % 16).chunks) {
      std::size_t tokens = 0, longest = 0;
      for (const std::size_t sequence : chunk.sequences) {
        ++seen[sequence];
        tokens += lengths[sequence];
        longest = std::max(longest, lengths[sequence]);
      }
      EXPECT_TRUE(std::is_sorted(chunk.sequences.begin(), chunk.sequences.end()));
      EXPECT_EQ(chunk.tokens, tokens);
      EXPECT_EQ(chunk.longest, longest);
      EXPECT_GT(tokens, 0u);
    }
    EXPECT_EQ(seen, std::vector<int>(lengths.size(), 1));
  }
}

TEST(PlanChunksTest, ManySequencesAreComputedSideBySide) {
  const std::vector<std::size_t> lengths(100, 300);
  const ChunkPlan plan = plan_chunks(lengths, 2);
  EXPECT_TRUE(plan.side_by_side);
  for (const Chunk& chunk : plan.chunks) EXPECT_LE(chunk.tokens, 1200u);
}

TEST(PlanChunksTest, WhatThreadsCannotShareEvenlyTheyComputeTogether) {
  EXPECT_FALSE(plan_chunks(std::vector<std::size_t>{400}, 2).side_by_side);
  EXPECT_FALSE(plan_chunks(std::vector<std::size_t>{400, 400, 400}, 2).side_by_side);
  EXPECT_TRUE(plan_chunks(std::vector<std::size_t>{400, 410}, 2).side_by_side);
  EXPECT_FALSE(plan_chunks(std::vector<std::size_t>{16, 16}, 2).side_by_side);  // too small
  EXPECT_FALSE(plan_chunks(std::vector<std::size_t>(100, 300), 1).side_by_side);
  EXPECT_TRUE(plan_chunks({}, 2).chunks.empty());
}

}  // namespace
}  // namespace sluice::engine
