#include "memory/alloc/adaptors.h"
#include "memory/alloc/allocator_conformance.h"
#include "memory/alloc/tracking.h"
#include "memory/pool/pool.h"
#include "memory/pool/pools.h"
#include "memory/pool/stream_ordered.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

template <StrategyKind kKind>
struct HostPool : testing::Test {
  static constexpr bool kTouchable = true;
  HostArena arena{256 * kMiB, 64 << 10};
  Pool pool{"test", arena, {.strategy = kKind, .growth = kMiB, .ceiling = 32 * kMiB}};
  Allocator& allocator() { return pool; }
};
using FirstFit = HostPool<StrategyKind::first_fit>;
using BestFit = HostPool<StrategyKind::best_fit>;
using Buddy = HostPool<StrategyKind::buddy>;
using Slab = HostPool<StrategyKind::slab>;

struct Imaginary : testing::Test {
  static constexpr bool kTouchable = false;
  ImaginaryArena arena{256 * kMiB};
  Pool pool{"test", arena, {}};
  Allocator& allocator() { return pool; }
};

struct Locked : BestFit {
  LockedAllocator locked{pool};
  Allocator& allocator() { return locked; }
};
struct Limited : BestFit {
  LimitedAllocator limited{pool, 16 * kMiB};
  Allocator& allocator() { return limited; }
  ~Limited() override { EXPECT_EQ(limited.in_use(), 0u); }
};
struct Counting : BestFit {
  CountingAllocator counting{pool};
  Allocator& allocator() { return counting; }
  ~Counting() override { EXPECT_EQ(counting.counts().bytes, 0u); }
};
struct Retrying : BestFit {
  RetryingAllocator retrying{pool, [](std::size_t, int attempt) { return attempt < 3; }};
  Allocator& allocator() { return retrying; }
};
struct Tracked : BestFit {
  Tracker tracker;
  TrackedAllocator tracked{pool, tracker, "test"};
  Allocator& allocator() { return tracked; }
  ~Tracked() override { EXPECT_EQ(tracked.in_use(), 0u); }
};
struct Named : testing::Test {
  static constexpr bool kTouchable = true;
  Pools pools{MemoryConfig{}};
  Allocator& allocator() { return pools.get("shared"); }
};

// A host has no streams: everything queued is done.
struct NoFences : Fences {
  Fence record(StreamId) override { return 0; }
  bool passed(Fence) override { return true; }
  void hold(StreamId, Fence) override {}
  void wait(Fence) override {}
  void release(Fence) noexcept override {}
};
struct Streamed : BestFit {
  NoFences fences;
  StreamOrderedPool streams{pool, fences};
  OnStream stream{streams, 7};
  Allocator& allocator() { return stream; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(FirstFit, AllocatorConformance, FirstFit);
INSTANTIATE_TYPED_TEST_SUITE_P(BestFit, AllocatorConformance, BestFit);
INSTANTIATE_TYPED_TEST_SUITE_P(Buddy, AllocatorConformance, Buddy);
INSTANTIATE_TYPED_TEST_SUITE_P(Slab, AllocatorConformance, Slab);
INSTANTIATE_TYPED_TEST_SUITE_P(Imaginary, AllocatorConformance, Imaginary);
INSTANTIATE_TYPED_TEST_SUITE_P(Locked, AllocatorConformance, Locked);
INSTANTIATE_TYPED_TEST_SUITE_P(Limited, AllocatorConformance, Limited);
INSTANTIATE_TYPED_TEST_SUITE_P(Counting, AllocatorConformance, Counting);
INSTANTIATE_TYPED_TEST_SUITE_P(Retrying, AllocatorConformance, Retrying);
INSTANTIATE_TYPED_TEST_SUITE_P(Tracked, AllocatorConformance, Tracked);
INSTANTIATE_TYPED_TEST_SUITE_P(Named, AllocatorConformance, Named);
INSTANTIATE_TYPED_TEST_SUITE_P(Streamed, AllocatorConformance, Streamed);

}  // namespace
}  // namespace sluice::memory
