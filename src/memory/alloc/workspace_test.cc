#include "memory/alloc/workspace.h"

#include <gtest/gtest.h>

#include "memory/alloc/adaptors.h"
#include "memory/pool/pool.h"

namespace sluice::memory {
namespace {

struct Scratch : testing::Test {
  HostArena arena{64 << 20};
  Pool pool{"workspace", arena, {.ceiling = 16 << 20}};
  CountingAllocator counting{pool};
};

TEST_F(Scratch, EverythingIsFreedAtTheEndOfTheScope) {
  {
    Workspace scratch(counting, 64 << 10);
    for (int i = 0; i < 100; ++i) (void)scratch.take(5000);
    EXPECT_GT(counting.counts().bytes, 0u);
  }
  EXPECT_EQ(counting.counts().bytes, 0u);
}

TEST_F(Scratch, NothingIsTakenBeforeItIsNeeded) {
  const Workspace scratch(counting);
  EXPECT_EQ(counting.counts().allocations, 0u);
  EXPECT_EQ(scratch.held(), 0u);
}

TEST_F(Scratch, BlocksAreAlignedAndApart) {
  Workspace scratch(counting, 4096);
  std::vector<std::span<int>> spans;
  for (int i = 0; i < 200; ++i) {
    spans.push_back(scratch.take<int>(static_cast<std::size_t>(i * 7 % 300)));
    std::fill(spans.back().begin(), spans.back().end(), i);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(spans.back().data()) % kAlignment, 0u);
  }
  for (int i = 0; i < 200; ++i)
    for (const int value : spans[static_cast<std::size_t>(i)]) ASSERT_EQ(value, i);
  EXPECT_NE(scratch.take(0), scratch.take(0));
}

TEST_F(Scratch, AMarkFreesWhatWasTakenSinceAndKeepsTheChunks) {
  Workspace scratch(counting, 64 << 10);
  void* const outer = scratch.take(1000);
  const std::size_t used = scratch.used();
  void* inner = nullptr;
  for (int round = 0; round < 1000; ++round) {
    const Workspace::Mark mark(scratch);
    void* const block = scratch.take(30'000);
    EXPECT_TRUE(inner == nullptr || inner == block);
    inner = block;
    {
      const Workspace::Mark nested(scratch);
      (void)scratch.take(100'000);
    }
    EXPECT_EQ(scratch.used(), used + 30'208);
  }
  EXPECT_EQ(scratch.used(), used);
  EXPECT_NE(inner, outer);
  EXPECT_EQ(counting.counts().allocations, 2u);
  EXPECT_EQ(scratch.peak(), used + 30'208 + 100'096);
}

TEST_F(Scratch, AnAbsurdRequestIsRefusedAndChangesNothing) {
  Workspace scratch(counting, 4096);
  void* const first = scratch.take(100);
  EXPECT_THROW((void)scratch.take(static_cast<std::size_t>(-1)), Error);
  EXPECT_THROW((void)scratch.take(1 << 30), Error);
  EXPECT_THROW((void)scratch.take<double>(static_cast<std::size_t>(-1) / 4), Error);
  EXPECT_EQ(static_cast<std::byte*>(scratch.take(100)), static_cast<std::byte*>(first) + 256);
}

}  // namespace
}  // namespace sluice::memory
