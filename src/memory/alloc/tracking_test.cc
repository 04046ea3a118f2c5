#include "memory/alloc/tracking.h"

#include <gmock/gmock.h>

#include <thread>

#include "memory/alloc/adaptors.h"
#include "memory/pool/pool.h"

namespace sluice::memory {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Tracking : testing::Test {
  ImaginaryArena arena{64 << 20};
  Pool pool{"test", arena, {}};
  std::vector<Leak> leaks;
  std::vector<Growth> growths;
  Tracker tracker{{.call_sites = false,
                   .window_s = 600,
                   .growth_bytes_per_s = 100,
                   .on_leak = [this](const Leak& leak) { leaks.push_back(leak); },
                   .on_growth = [this](const Growth& growth) { growths.push_back(growth); }}};

  OwnerUse use(std::string_view owner) const {
    for (const OwnerUse& one : tracker.owners())
      if (one.owner == owner) return one;
    return {};
  }
};

TEST_F(Tracking, EveryOwnerHasItsOwnStatistics) {
  TrackedAllocator scout(pool, tracker, "scout"), analyst(pool, tracker, "analyst");
  { const Buffer a(scout, 1000), b(scout, 500); }
  const Buffer c(scout, 100), d(analyst, 7);
  EXPECT_EQ(use("scout").used, 100u);
  EXPECT_EQ(use("scout").peak, 1500u);
  EXPECT_EQ(use("scout").count, 1u);
  EXPECT_EQ(use("scout").allocations, 3u);
  EXPECT_EQ(use("analyst").used, 7u);
}

TEST_F(Tracking, TwoAllocatorsOfOneOwnerCountTogether) {
  TrackedAllocator one(pool, tracker, "scout"), two(pool, tracker, "scout");
  const Buffer a(one, 10), b(two, 20);
  EXPECT_EQ(use("scout").used, 30u);
  EXPECT_EQ(one.in_use(), 10u);
}

TEST_F(Tracking, AScopeThatEndsCleanReportsNothing) {
  {
    TrackedAllocator scout(pool, tracker, "scout");
    const Buffer a(scout, 1000);
  }
  EXPECT_THAT(leaks, IsEmpty());
}

TEST_F(Tracking, BytesThatOutliveTheirScopeAreReportedByOwner) {
  void* left = nullptr;
  {
    TrackedAllocator scout(pool, tracker, "scout");
    left = scout.allocate(1000);
  }
  ASSERT_THAT(leaks, SizeIs(1));
  EXPECT_EQ(leaks[0].owner, "scout");
  EXPECT_EQ(leaks[0].bytes, 1000u);
  EXPECT_EQ(leaks[0].count, 1u);
  EXPECT_THAT(leaks[0].sites, IsEmpty());
  EXPECT_EQ(use("scout").used, 0u);
  EXPECT_EQ(use("scout").leaked, 1000u);
  pool.deallocate(left, 1000);
}

TEST_F(Tracking, ALeaseThatEndsIsReportedOnceAndItsBlocksMayStillComeBack) {
  TrackedAllocator scout(pool, tracker, "scout");
  {
    const Buffer late(scout, 1000);
    scout.end();
    scout.end();
    EXPECT_THAT(leaks, SizeIs(1));
  }
  EXPECT_EQ(use("scout").used, 0u);
}

__attribute__((noinline)) void* ask_for_memory(Allocator& allocator) {
  void* const pointer = allocator.allocate(64);
  asm volatile("" : : "r"(pointer) : "memory");  // keeps this frame: no tail call
  return pointer;
}

TEST_F(Tracking, ALeakNamesTheCallSitesThatHoldTheMost) {
  Tracker with_sites(
      {.call_sites = true, .on_leak = [this](const Leak& l) { leaks.push_back(l); }});
  std::vector<void*> left;
  void* other = nullptr;
  {
    TrackedAllocator scout(pool, with_sites, "scout");
    for (int i = 0; i < 10; ++i) left.push_back(ask_for_memory(scout));
    other = scout.allocate(1);
    const Buffer returned(scout, 5000);
  }
  ASSERT_THAT(leaks, SizeIs(1));
  ASSERT_THAT(leaks[0].sites, SizeIs(2));
  EXPECT_EQ(leaks[0].sites[0].count, 10u);
  EXPECT_EQ(leaks[0].sites[0].bytes, 640u);
  EXPECT_THAT(leaks[0].sites[0].where, HasSubstr(" < "));
  EXPECT_THAT(to_string(leaks[0]), HasSubstr("scout leaked"));
  for (void* const pointer : left) pool.deallocate(pointer, 64);
  pool.deallocate(other, 1);
}

TEST_F(Tracking, SteadyGrowthIsReportedOnceWithItsSlope) {
  TrackedAllocator scout(pool, tracker, "scout");
  std::vector<Buffer> hoard;
  Instant now{};
  for (int i = 0; i < 120; ++i, now += std::chrono::seconds(10)) {
    hoard.emplace_back(scout, 10'000);  // 1000 bytes a second
    tracker.sample(now);
  }
  ASSERT_THAT(growths, SizeIs(1));
  EXPECT_EQ(growths[0].owner, "scout");
  EXPECT_NEAR(growths[0].bytes_per_s, 1000, 1);
  EXPECT_NEAR(*use("scout").bytes_per_s, 1000, 1);
  EXPECT_THAT(to_string(growths[0]), HasSubstr("scout grows by"));
}

TEST_F(Tracking, GrowthThatEndedIsReportedWhenItBeginsAgain) {
  TrackedAllocator scout(pool, tracker, "scout");
  std::vector<Buffer> hoard;
  Instant now{};
  for (int i = 0; i < 400; ++i, now += std::chrono::seconds(10)) {
    if (i < 100 || i > 250) hoard.emplace_back(scout, 10'000);
    tracker.sample(now);
  }
  EXPECT_THAT(growths, SizeIs(2));
}

TEST_F(Tracking, AJumpToANewLevelIsNotGrowth) {
  TrackedAllocator scout(pool, tracker, "scout");
  std::vector<Buffer> held;
  Instant now{};
  for (int i = 0; i < 200; ++i, now += std::chrono::seconds(10)) {
    if (i == 70) held.emplace_back(scout, 10 << 20);
    tracker.sample(now);
  }
  EXPECT_THAT(growths, IsEmpty());
}

TEST_F(Tracking, MemoryThatComesAndGoesIsNotGrowth) {
  TrackedAllocator scout(pool, tracker, "scout");
  Instant now{};
  for (int i = 0; i < 200; ++i, now += std::chrono::seconds(10)) {
    const Buffer batch(scout, static_cast<std::size_t>(1 + i * 7919 % 13) << 16);
    tracker.sample(now);
  }
  EXPECT_THAT(growths, IsEmpty());
}

TEST_F(Tracking, IsSafeToShareBetweenThreads) {
  LockedAllocator locked(pool);
  TrackedAllocator scout(locked, tracker, "scout");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      TrackedAllocator mine(locked, tracker, "thread" + std::to_string(t % 2));
      for (int i = 0; i < 2000; ++i) {
        const Buffer a(scout, 100), b(mine, 50);
        if (i % 100 == 0) tracker.sample(Instant{} + std::chrono::seconds(i));
        if (i % 100 == 0) (void)tracker.owners();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(use("scout").allocations, 8000u);
  EXPECT_EQ(use("scout").used, 0u);
  EXPECT_EQ(use("thread1").allocations, 4000u);
}

}  // namespace
}  // namespace sluice::memory
