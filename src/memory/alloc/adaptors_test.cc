#include "memory/alloc/adaptors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "memory/pool/pool.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

struct Adaptors : testing::Test {
  HostArena arena{256 * kMiB, 64 << 10};
  Pool pool{"test", arena, {.growth = kMiB, .ceiling = 32 * kMiB}};
};

TEST_F(Adaptors, ALimitCountsLiveBytesAndReleasesThem) {
  LimitedAllocator limited(pool, 1000);
  Buffer a(limited, 600);
  EXPECT_THROW((void)limited.allocate(401), Error);
  const Buffer b(limited, 400);
  EXPECT_EQ(limited.in_use(), 1000u);
  a.reset();
  EXPECT_EQ(limited.in_use(), 400u);
  limited.set_limit(100);
  EXPECT_THROW((void)limited.allocate(1), Error);
}

TEST_F(Adaptors, AnUpstreamRefusalDoesNotUseUpTheLimit) {
  LimitedAllocator limited(pool, 100 * kMiB);
  EXPECT_THROW((void)limited.allocate(64 * kMiB), Error);
  EXPECT_EQ(limited.in_use(), 0u);
}

TEST_F(Adaptors, CountsReportLiveBytesPeakAndFailures) {
  CountingAllocator counting(pool);
  { const Buffer a(counting, 1000), b(counting, 500); }
  const Buffer c(counting, 200);
  EXPECT_THROW((void)counting.allocate(64 * kMiB), Error);
  const Counts counts = counting.counts();
  EXPECT_EQ(counts.allocations, 3u);
  EXPECT_EQ(counts.deallocations, 2u);
  EXPECT_EQ(counts.failures, 1u);
  EXPECT_EQ(counts.bytes, 200u);
  EXPECT_EQ(counts.peak_bytes, 1500u);
  EXPECT_EQ(counts.count, 1u);
  EXPECT_EQ(counts.total_bytes, 1700u);
}

TEST_F(Adaptors, ARetryHappensAfterMemoryWasFreed) {
  Buffer cache(pool, 30 * kMiB);
  int calls = 0;
  RetryingAllocator retrying(pool, [&](std::size_t bytes, int) {
    EXPECT_EQ(bytes, 20 * kMiB);
    ++calls;
    cache.reset();
    return true;
  });
  const Buffer block(retrying, 20 * kMiB);
  EXPECT_EQ(calls, 1);
}

TEST_F(Adaptors, ARetryEndsWhenThereIsNothingLeftToTry) {
  int calls = 0;
  RetryingAllocator retrying(pool, [&](std::size_t, int attempt) {
    ++calls;
    return attempt < 5;
  });
  EXPECT_THROW((void)retrying.allocate(64 * kMiB), Error);
  EXPECT_EQ(calls, 5);
  RetryingAllocator without(pool, nullptr);
  EXPECT_THROW((void)without.allocate(64 * kMiB), Error);
}

// Each thread writes its own mark and finds it again: blocks are shared by no two. The
// limit is tight, so that many claims meet at its edge.
TEST_F(Adaptors, AStackIsSafeToShareBetweenThreads) {
  LockedAllocator locked(pool);
  CountingAllocator counting(locked);
  LimitedAllocator limited(counting, kMiB / 4);
  std::atomic<int> refused{0}, over{0}, mixed{0};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Buffer> mine(8);
    for (int i = 0; i < 5000; ++i) {
      Buffer& slot = mine[random() % mine.size()];
      slot.reset();
      try {
        slot = Buffer(limited, random() % (128 << 10));
        std::memset(slot.data(), static_cast<int>(seed), std::min<std::size_t>(slot.bytes(), 64));
      } catch (const Error&) {
        ++refused;
      }
      if (limited.in_use() > kMiB / 4) ++over;
      for (const Buffer& held : mine)
        if (held.data() != nullptr && held.bytes() > 0 &&
            *static_cast<const unsigned char*>(held.data()) != seed)
          ++mixed;
      if (i % 500 == 0) limited.trim();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(over, 0);
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(limited.in_use(), 0u);
  EXPECT_EQ(counting.counts().count, 0u);
  EXPECT_EQ(pool.statistics().used, 0u);
}

}  // namespace
}  // namespace sluice::memory
