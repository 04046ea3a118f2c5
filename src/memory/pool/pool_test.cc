#include "memory/pool/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kGranule = 1 << 16;

// Knows which granules have memory, and refuses what a real one would suffer.
class StrictArena final : public Arena {
 public:
  explicit StrictArena(std::size_t addresses, std::size_t memory = static_cast<std::size_t>(-1))
      : memory_(memory), has_(addresses / kGranule) {}

  std::byte* base() const noexcept override { return reinterpret_cast<std::byte*>(kBase); }
  std::size_t addresses() const noexcept override { return has_.size() * kGranule; }
  std::size_t granule() const noexcept override { return kGranule; }
  void commit(std::size_t offset, std::size_t bytes) override {
    if (committed_ + bytes > memory_) throw Error(Code::exhausted, "the machine is full");
    set(offset, bytes, true);
    committed_ += bytes;
  }
  void decommit(std::size_t offset, std::size_t bytes) noexcept override {
    set(offset, bytes, false);
    committed_ -= bytes;
  }

  std::size_t committed() const { return committed_; }
  bool behind(const void* pointer, std::size_t bytes) const {
    const std::size_t first = reinterpret_cast<std::uintptr_t>(pointer) - kBase;
    for (std::size_t at = first; at < first + bytes; at += kAlignment)
      if (!has_[at / kGranule]) return false;
    return true;
  }

 private:
  static constexpr std::uintptr_t kBase = std::uintptr_t{1} << 44;
  void set(std::size_t offset, std::size_t bytes, bool value) {
    ASSERT_EQ(offset % kGranule, 0u);
    ASSERT_EQ(bytes % kGranule, 0u);
    for (std::size_t at = offset; at < offset + bytes; at += kGranule) {
      EXPECT_NE(has_[at / kGranule], value) << "twice";
      has_[at / kGranule] = value;
    }
  }
  std::size_t memory_, committed_ = 0;
  std::vector<bool> has_;
};

class EveryPool : public testing::TestWithParam<StrategyKind> {
 protected:
  PoolOptions options(std::size_t ceiling, std::size_t growth = 0) const {
    return {.strategy = GetParam(), .initial = 0, .growth = growth, .ceiling = ceiling};
  }
};

TEST_P(EveryPool, CommitsItsInitialSizeAtOnceAndNothingElse) {
  StrictArena arena(64 * kMiB);
  Pool pool("p", arena, {.strategy = GetParam(), .initial = 3 * kMiB});
  EXPECT_EQ(arena.committed(), 3 * kMiB);
  EXPECT_EQ(pool.statistics().committed, 3 * kMiB);
}

TEST_P(EveryPool, GrowsByItsGrowthAndNeverPastItsCeiling) {
  StrictArena arena(64 * kMiB);
  Pool pool("p", arena, options(6 * kMiB, 4 * kMiB));
  std::vector<Buffer> out;
  out.emplace_back(pool, kMiB);
  EXPECT_EQ(arena.committed(), 4 * kMiB);
  for (int i = 0; i < 5; ++i) out.emplace_back(pool, kMiB);
  EXPECT_EQ(arena.committed(), 6 * kMiB);
  EXPECT_THROW(out.emplace_back(pool, 1), Error);
  EXPECT_EQ(pool.statistics().failures, 1u);
  EXPECT_EQ(pool.statistics().count, 6u);
}

TEST_P(EveryPool, ReachesMemoryThatIsFreeInPieces) {
  StrictArena arena(256 * kMiB);
  Pool pool("p", arena, options(8 * kMiB));
  std::vector<Buffer> out;
  for (int i = 0; i < 32; ++i) out.emplace_back(pool, kMiB / 4);
  for (std::size_t i = 0; i < out.size(); i += 2) out[i].reset();  // 4 MiB in 16 holes
  const PoolStatistics before = pool.statistics();
  EXPECT_LT(before.largest_free, kMiB);
  EXPECT_EQ(before.grantable, 4 * kMiB);
  const Buffer large(pool, 4 * kMiB);
  EXPECT_TRUE(arena.behind(large.data(), large.bytes()));
  for (const Buffer& buffer : out)
    EXPECT_TRUE(buffer.data() == nullptr || arena.behind(buffer.data(), buffer.bytes()));
  EXPECT_EQ(arena.committed(), 8 * kMiB);
  EXPECT_EQ(pool.statistics().remapped_bytes, 4 * kMiB);
}

TEST_P(EveryPool, RemapsWhenTheMachineIsFullEvenBelowTheCeiling) {
  StrictArena arena(256 * kMiB, 4 * kMiB);
  Pool pool("p", arena, options(64 * kMiB));
  std::vector<Buffer> out;
  for (int i = 0; i < 16; ++i) out.emplace_back(pool, kMiB / 4);
  for (std::size_t i = 0; i < out.size(); i += 2) out[i].reset();
  const Buffer large(pool, 2 * kMiB);
  EXPECT_TRUE(arena.behind(large.data(), large.bytes()));
  EXPECT_THROW((void)pool.allocate(kMiB), Error);
}

TEST_P(EveryPool, TrimsEverythingThatIsFreeAndGrowsAgainAtTheSameAddresses) {
  StrictArena arena(64 * kMiB);
  Pool pool("p", arena, options(32 * kMiB, 8 * kMiB));
  void* const first = pool.allocate(4 * kMiB);
  const Buffer small(pool, 100);
  pool.deallocate(first, 4 * kMiB);
  EXPECT_EQ(pool.trim(), 8 * kMiB - kGranule);
  EXPECT_EQ(arena.committed(), kGranule);
  EXPECT_TRUE(arena.behind(small.data(), small.bytes()));
  for (int i = 0; i < 100; ++i) {  // addresses must not run out
    void* const again = pool.allocate(4 * kMiB);
    EXPECT_TRUE(arena.behind(again, 4 * kMiB));
    pool.deallocate(again, 4 * kMiB);
    pool.trim();
  }
}

TEST_P(EveryPool, GivesEverythingBackToTheArenaAtItsEnd) {
  StrictArena arena(64 * kMiB);
  {
    Pool pool("p", arena, options(32 * kMiB, kMiB));
    const Buffer buffer(pool, 5 * kMiB);
  }
  EXPECT_EQ(arena.committed(), 0u);
}

TEST_P(EveryPool, ShowsItsArenaAsAMapWithoutGaps) {
  StrictArena arena(64 * kMiB);
  Pool pool("p", arena, options(32 * kMiB, 4 * kMiB));
  const Buffer a(pool, kMiB);
  Buffer b(pool, kMiB);
  const Buffer c(pool, kMiB);
  b.reset();
  pool.trim();
  Offset at = 0;
  std::size_t uncommitted = 0, taken = 0;
  for (const auto& piece : pool.map()) {
    EXPECT_EQ(piece.offset, at);
    at += piece.bytes;
    (piece.what == Pool::RangeState::taken ? taken : uncommitted) += piece.bytes;
  }
  EXPECT_EQ(at, 4 * kMiB);
  EXPECT_EQ(taken, 2 * kMiB);
  EXPECT_EQ(uncommitted, 2 * kMiB);
}

// Whatever happens: blocks have memory behind them, sums agree, the ceiling holds, and
// what is said to be grantable is granted.
TEST_P(EveryPool, HoldsItsInvariantsOverRandomOperations) {
  StrictArena arena(512 * kMiB, 20 * kMiB);
  const std::size_t ceiling = 16 * kMiB;
  Pool pool("p", arena, options(ceiling, kMiB));
  std::mt19937_64 random(5);
  std::vector<Buffer> out;
  std::size_t used = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto dice = random() % 100;
    if (dice < 55) {
      const std::size_t bytes = random() % (std::size_t{1} << (8 + random() % 15));
      try {
        out.emplace_back(pool, bytes);
        used += bytes;
        ASSERT_TRUE(arena.behind(out.back().data(), bytes));
      } catch (const Error&) {
        ++refused;
      }
    } else if (dice < 99 && !out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      used -= out.back().bytes();
      out.pop_back();
    } else if (dice == 99 && random() % 4 == 0) {
      pool.trim();
    }
    ASSERT_LE(arena.committed(), ceiling);
    if (i % 200 != 0) continue;
    const PoolStatistics s = pool.statistics();
    ASSERT_EQ(s.used, used);
    ASSERT_EQ(s.count, out.size());
    ASSERT_EQ(s.committed, arena.committed());
    ASSERT_LE(s.largest_free, s.grantable);
    ASSERT_THROW((void)pool.allocate(s.grantable + 1), Error);
    if (s.grantable > 0) const Buffer granted(pool, s.grantable);
  }
  EXPECT_GT(refused, 100u);
  for (const Buffer& block : out) EXPECT_TRUE(arena.behind(block.data(), block.bytes()));
}

TEST_P(EveryPool, MovesOnlyBlocksWithAMoverAndOnlyToLowerAddresses) {
  HostArena arena(64 * kMiB, kGranule);
  Pool pool("p", arena, options(32 * kMiB, 8 * kMiB));
  std::vector<void*> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(pool.allocate(128 << 10));
    std::memset(blocks.back(), i, 128 << 10);
  }
  std::vector<void*> before = blocks;
  for (std::size_t i = 0; i < 32; ++i) {
    if (i < 16 && i % 4 != 0) pool.deallocate(std::exchange(blocks[i], nullptr), 128 << 10);
    if (i < 16) continue;
    pool.set_mover(blocks[i], 128 << 10, [&blocks, i](void* from, void* to, std::size_t bytes) {
      EXPECT_EQ(from, blocks[i]);
      EXPECT_LT(to, from);
      std::memcpy(to, from, bytes);
      blocks[i] = to;
    });
  }
  const Moved moved = pool.defragment();
  EXPECT_EQ(moved.blocks, 12u);
  EXPECT_EQ(moved.bytes, 12u * (128 << 10));
  EXPECT_GE(pool.statistics().largest_free, 4 * kMiB);  // 5.5 are free
  for (std::size_t i = 0; i < 32; ++i) {
    if (blocks[i] == nullptr) continue;
    EXPECT_TRUE(i >= 16 || blocks[i] == before[i]);
    EXPECT_EQ(static_cast<const char*>(blocks[i])[100'000], static_cast<char>(i));
    pool.deallocate(blocks[i], 128 << 10);
  }
  EXPECT_EQ(pool.statistics().used, 0u);
  EXPECT_EQ(pool.defragment().blocks, 0u);
}

TEST_P(EveryPool, KeepsABlockWhoseMoverThrows) {
  HostArena arena(64 * kMiB, kGranule);
  Pool pool("p", arena, options(32 * kMiB, 8 * kMiB));
  Buffer low(pool, 100'000), high(pool, 100'000);
  if (low.data() > high.data()) std::swap(low, high);
  low.reset();
  pool.set_mover(high.data(), high.bytes(),
                 [](void*, void*, std::size_t) { throw Error(Code::internal, "no"); });
  EXPECT_THROW(pool.defragment(), Error);
  EXPECT_EQ(pool.statistics().count, 1u);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPool, testing::ValuesIn(kStrategyKinds),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(Pool, ReportsTheCostOfRoundingAndHoles) {
  ImaginaryArena arena(64 * kMiB);
  Pool pool("p", arena, {.strategy = StrategyKind::buddy, .initial = 4 * kMiB});
  const Buffer a(pool, 768 << 10);
  const PoolStatistics s = pool.statistics();
  EXPECT_EQ(s.taken, kMiB);
  EXPECT_DOUBLE_EQ(s.internal_fragmentation, 0.25);
  EXPECT_EQ(s.largest_free, 2 * kMiB);  // of 3 that are free
  EXPECT_NEAR(s.external_fragmentation, 1.0 / 3, 1e-9);
  EXPECT_DOUBLE_EQ(s.efficiency, 0.1875);
}

TEST(Pool, RefusesAnInitialSizeAboveItsCeiling) {
  ImaginaryArena arena(64 * kMiB);
  EXPECT_THROW(Pool("p", arena, {.initial = 2 * kMiB, .ceiling = kMiB}), Error);
}

TEST(Pool, RefusesAMoverForABlockThatIsNotLive) {
  ImaginaryArena arena(64 * kMiB);
  Pool pool("p", arena, {.initial = kMiB});
  EXPECT_THROW(pool.set_mover(arena.base(), 1, nullptr), Error);
}

TEST(HostArena, RevokesAccessToUncommittedPages) {
  HostArena arena(kMiB, kGranule);
  arena.commit(0, 2 * kGranule);
  arena.base()[kGranule] = std::byte{1};
  arena.decommit(kGranule, kGranule);
  arena.base()[kGranule - 1] = std::byte{1};
  EXPECT_DEATH(arena.base()[kGranule] = std::byte{1}, "");
  arena.commit(kGranule, kGranule);
  EXPECT_EQ(arena.base()[kGranule], std::byte{0});
}

TEST(HostArena, RefusesMoreAddressesThanThereAre) {
  EXPECT_THROW(HostArena(std::size_t{1} << 60), Error);
}

}  // namespace
}  // namespace sluice::memory
