#include "memory/pool/stream_ordered.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <thread>

#include "base/error.h"
#include "memory/alloc/adaptors.h"
#include "memory/pool/pool.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

// Streams that run on command. Work names the bytes it uses; it is wrong when it runs
// before work that was queued earlier for the same bytes.
class FakeDevice : public Fences {
 public:
  bool lies = false;  // says that every fence is passed

  void queue_use(StreamId stream, const void* pointer, std::size_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
    pending_[++queued_] = {begin, begin + bytes};
    streams_[stream].push_back({Kind::use, queued_});
  }
  // Runs the next piece of work; false when there is none or it waits for a fence.
  bool step(StreamId stream) {
    auto& queue = streams_[stream];
    if (queue.empty()) return false;
    const Work work = queue.front();
    if (work.kind == Kind::hold && !done_[work.number]) return false;
    queue.pop_front();
    if (work.kind == Kind::record) done_[work.number] = true;
    if (work.kind == Kind::use) run(work.number);
    return true;
  }
  void drain() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [stream, _] : streams_)
        while (step(stream)) moved = true;
    }
  }
  int wrong() const { return wrong_; }
  int recorded() const { return static_cast<int>(done_.size()); }
  int alive() const { return alive_; }

  Fence record(StreamId stream) override {
    const Fence fence = ++fences_;
    done_[fence] = false;
    ++alive_;
    streams_[stream].push_back({Kind::record, fence});
    return fence;
  }
  bool passed(Fence fence) override { return lies || done_[fence]; }
  void hold(StreamId stream, Fence fence) override {
    streams_[stream].push_back({Kind::hold, fence});
  }
  void wait(Fence fence) override {
    while (!done_[fence]) drain();
  }
  void release(Fence) noexcept override { --alive_; }

 private:
  enum class Kind { use, record, hold };
  struct Work {
    Kind kind;
    std::uint64_t number;
  };
  void run(std::uint64_t use) {
    const auto [begin, end] = pending_[use];
    for (const auto& [earlier, span] : pending_) {
      if (earlier >= use) break;
      if (span.first < end && begin < span.second) ++wrong_;
    }
    pending_.erase(use);
  }
  std::map<StreamId, std::deque<Work>> streams_;
  std::map<std::uint64_t, std::pair<std::uintptr_t, std::uintptr_t>> pending_;
  std::map<Fence, bool> done_;
  std::uint64_t queued_ = 0, fences_ = 0;
  int wrong_ = 0, alive_ = 0;
};

struct StreamOrdered : testing::Test {
  ImaginaryArena arena{256 * kMiB, static_cast<std::size_t>(-1), 64 << 10};
  Pool pool{"gpu", arena, {.growth = 0, .ceiling = 4 * kMiB}};
  FakeDevice device;
};

TEST_F(StreamOrdered, ABlockIsReusedAtOnceOnItsOwnStreamWithoutAFence) {
  StreamOrderedPool streams(pool, device);
  void* const first = streams.allocate(1000, 1);
  device.queue_use(1, first, 1000);
  streams.deallocate(first, 1000, 1);
  EXPECT_EQ(streams.allocate(1000, 1), first);
  EXPECT_EQ(device.recorded(), 0);
  streams.deallocate(first, 1000, 1);
}

TEST_F(StreamOrdered, AnotherStreamGetsABlockOnlyAfterTheFirstHasPassedIt) {
  StreamOrderedPool streams(pool, device);
  void* const first = streams.allocate(1000, 1);
  device.queue_use(1, first, 1000);
  streams.deallocate(first, 1000, 1);
  void* const second = streams.allocate(1000, 2);
  EXPECT_NE(second, first);
  device.drain();
  EXPECT_EQ(streams.allocate(1000, 2), first);
  EXPECT_EQ(streams.stats().passed, 1u);
  streams.deallocate(first, 1000, 2);
  streams.deallocate(second, 1000, 2);
}

TEST_F(StreamOrdered, WhenMemoryIsShortTheOtherStreamWaitsForTheBlock) {
  StreamOrderedPool streams(pool, device);
  void* const all = streams.allocate(4 * kMiB, 1);
  device.queue_use(1, all, 4 * kMiB);
  streams.deallocate(all, 4 * kMiB, 1);
  EXPECT_EQ(streams.allocate(4 * kMiB, 2), all);
  EXPECT_EQ(streams.stats().held, 1u);
  device.queue_use(2, all, 4 * kMiB);
  EXPECT_FALSE(device.step(2));  // it waits
  device.drain();
  EXPECT_EQ(device.wrong(), 0);
  streams.deallocate(all, 4 * kMiB, 2);
}

TEST_F(StreamOrdered, BlocksOfOtherSizesAreReusedOnceTheStreamsWereSynchronized) {
  StreamOrderedPool streams(pool, device);
  std::vector<void*> small;
  for (int i = 0; i < 4; ++i) {
    small.push_back(streams.allocate(kMiB, 1));
    device.queue_use(1, small.back(), kMiB);
  }
  for (void* const pointer : small) streams.deallocate(pointer, kMiB, 1);
  void* const large = streams.allocate(4 * kMiB, 2);
  device.queue_use(2, large, 4 * kMiB);
  device.drain();
  EXPECT_EQ(device.wrong(), 0);
  EXPECT_EQ(streams.stats().waited, 1u);
  EXPECT_THROW((void)streams.allocate(1, 1), Error);
  streams.deallocate(large, 4 * kMiB, 2);
}

TEST_F(StreamOrdered, TrimmingFreesOnlyCompletedBlocks) {
  StreamOrderedPool streams(pool, device);
  void* const block = streams.allocate(kMiB, 1);
  device.queue_use(1, block, kMiB);
  streams.deallocate(block, kMiB, 1);
  streams.trim();
  EXPECT_EQ(streams.stats().cached_blocks, 1u);
  device.drain();
  EXPECT_GE(streams.trim(), kMiB);
  EXPECT_EQ(streams.stats().cached_bytes, 0u);
  EXPECT_EQ(pool.statistics().committed, 0u);
}

TEST_F(StreamOrdered, AStreamThatIsForgottenLeavesNothingBehind) {
  {
    StreamOrderedPool streams(pool, device);
    void* const block = streams.allocate(kMiB, 1);
    streams.deallocate(block, kMiB, 1);
    streams.forget(1);
    streams.forget(99);
    EXPECT_EQ(streams.stats().cached_blocks, 0u);
    EXPECT_EQ(pool.statistics().used, 0u);
  }
  EXPECT_EQ(device.alive(), 0);
}

// Any order of asking, using and freeing on any stream, while the streams run at their
// own pace. Returns how often work met a block that others still used.
int random_run(Pool& pool, FakeDevice& device, unsigned seed) {
  StreamOrderedPool streams(pool, device);
  std::mt19937 random(seed);
  struct Held {
    void* pointer;
    std::size_t bytes;
    StreamId stream;
  };
  std::vector<Held> held;
  for (int i = 0; i < 5000; ++i) {
    const StreamId stream = 1 + random() % 4;
    const auto dice = random() % 100;
    if (dice < 45) {
      const std::size_t bytes = random() % (std::size_t{1} << (9 + random() % 11));
      try {
        held.push_back({streams.allocate(bytes, stream), bytes, stream});
        device.queue_use(stream, held.back().pointer, bytes);
      } catch (const Error&) {
      }
    } else if (dice < 85 && !held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const Held block = held.back();
      held.pop_back();
      device.queue_use(block.stream, block.pointer, block.bytes);
      streams.deallocate(block.pointer, block.bytes, block.stream);
    } else if (dice == 85) {
      streams.trim();
    } else {
      for (auto steps = random() % 16; steps > 0; --steps) device.step(1 + random() % 4);
    }
  }
  for (const Held& block : held) streams.deallocate(block.pointer, block.bytes, block.stream);
  device.drain();
  const auto stats = streams.stats();
  EXPECT_GT(stats.same_stream, 0u);
  EXPECT_GT(stats.passed, 0u);
  return device.wrong();
}

TEST_F(StreamOrdered, NoBlockIsUsedByTwoStreamsAtOnceInRandomRuns) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    FakeDevice fresh;
    EXPECT_EQ(random_run(pool, fresh, seed), 0) << seed;
    EXPECT_EQ(fresh.alive(), 0) << "fences are left over";
  }
  EXPECT_EQ(pool.statistics().used, 0u);
}

TEST_F(StreamOrdered, RandomTestDetectsInjectedReuseBug) {
  device.lies = true;
  EXPECT_GT(random_run(pool, device, 1), 0);
}

struct AlwaysPast : Fences {
  Fence record(StreamId) override { return 0; }
  bool passed(Fence) override { return true; }
  void hold(StreamId, Fence) override {}
  void wait(Fence) override {}
  void release(Fence) noexcept override {}
};

TEST_F(StreamOrdered, IsSafeToShareBetweenThreads) {
  LockedAllocator locked(pool);
  AlwaysPast fences;
  StreamOrderedPool streams(locked, fences);
  std::vector<std::thread> threads;
  for (StreamId id = 1; id <= 4; ++id)
    threads.emplace_back([&, id] {
      for (std::size_t i = 0; i < 3000; ++i) {
        void* const block = streams.allocate(1000 * (i % 7), id);
        streams.deallocate(block, 1000 * (i % 7), id);
        if (i % 500 == 0) streams.trim();
      }
    });
  for (auto& thread : threads) thread.join();
  streams.trim();
  EXPECT_EQ(pool.statistics().used, 0u);
}

}  // namespace
}  // namespace sluice::memory
