#include "engine/exec/memory_planner.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::engine {
namespace {

constexpr std::size_t kAlignment = 64;

void expect_apart(std::span<const Block> blocks, const ArenaLayout& placed) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(placed.offsets[i] % kAlignment, 0u);
    EXPECT_LE(placed.offsets[i] + blocks[i].bytes, placed.bytes);
    for (std::size_t k = 0; k < i; ++k) {
      const bool together = blocks[i].first <= blocks[k].last && blocks[k].first <= blocks[i].last;
      const bool apart = placed.offsets[i] + blocks[i].bytes <= placed.offsets[k] ||
                         placed.offsets[k] + blocks[k].bytes <= placed.offsets[i];
      EXPECT_TRUE(!together || apart || blocks[i].bytes == 0 || blocks[k].bytes == 0)
          << i << " and " << k;
    }
  }
}

TEST(MemoryPlannerTest, BlocksAliveAtTheSameTimeDoNotOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(1 + random() % 60);
    for (Block& block : blocks) {
      block.bytes = random() % 10 == 0 ? 0 : random() % 5000;
      block.first = static_cast<int>(random() % 30);
      block.last = block.first + static_cast<int>(random() % 8);
    }
    const ArenaLayout placed = plan_memory(blocks, kAlignment);
    expect_apart(blocks, placed);
    EXPECT_GE(placed.bytes, placed.peak_live);
  }
}

TEST(MemoryPlannerTest, PlanningManyBlocksIsFast) {
  std::mt19937 random(7);
  std::vector<Block> blocks;
  for (int i = 0; i < 9'000; ++i) {
    const int first = static_cast<int>(random() % 9'000);
    blocks.push_back({1 + random() % 5000, first, first + static_cast<int>(random() % 8)});
  }
  expect_apart(blocks, plan_memory(blocks, kAlignment));
  const std::vector<Block> together(200'000, Block{64, 0, 1});  // all alive at once
  EXPECT_EQ(plan_memory(together, kAlignment).bytes, together.size() * 64);
}

// Layers of a network: each value dies at the next layer, with a residual around every two.
TEST(MemoryPlannerTest, ArenaOfANetworkIsCloseToItsPeakLiveBytes) {
  for (const std::size_t wide : {std::size_t{3072}, std::size_t{4096}}) {
    std::vector<Block> blocks;
    for (int layer = 0; layer < 12; ++layer) {
      const int at = layer * 4;
      blocks.push_back({768 * 64, at, at + 4});
      blocks.push_back({3 * 768 * 64, at + 1, at + 2});
      blocks.push_back({768 * 64, at + 2, at + 3});
      blocks.push_back({wide * 64, at + 3, at + 4});
    }
    const ArenaLayout placed = plan_memory(blocks, kAlignment);
    expect_apart(blocks, placed);
    EXPECT_LE(placed.bytes, placed.peak_live * 115 / 100);
  }
}

// An encoder-decoder: each level is half as large as the previous and lives until its skip
// connection.
TEST(MemoryPlannerTest, ArenaOfAnHourglassIsCloseToItsPeakLiveBytes) {
  for (const int depth : {2, 3, 4, 5, 6}) {
    std::vector<Block> blocks;
    const int end = 4 * depth;
    for (int level = 0; level < depth; ++level) {
      const std::size_t bytes = std::size_t{1 << 16} >> level;
      const int down = 2 * level, up = end - 2 * level;
      blocks.push_back({bytes, down, up + 1});  // skip connection
      blocks.push_back({bytes / 2, down + 1, down + 2});
      blocks.push_back({2 * bytes, up, up + 1});      // upsampled
      blocks.push_back({3 * bytes, up + 1, up + 2});  // concatenated
      blocks.push_back({bytes, up + 2, up + 3});
    }
    const ArenaLayout placed = plan_memory(blocks, kAlignment);
    expect_apart(blocks, placed);
    EXPECT_LE(placed.bytes, placed.peak_live * 115 / 100) << depth;
  }
}

TEST(MemoryPlannerTest, PeakLiveIsTheLargestSumOfAStep) {
  const Block blocks[] = {{100, 0, 1}, {50, 1, 2}, {70, 2, 3}};
  EXPECT_EQ(plan_memory(blocks, kAlignment).peak_live, 150u);
  EXPECT_EQ(plan_memory({}, kAlignment).bytes, 0u);
}

}  // namespace
}  // namespace sluice::engine
