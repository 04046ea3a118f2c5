#include "memory/pool/pools.h"

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/error.h"
#include "memory/strategy/sizes_for_tests.h"

namespace sluice::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Four pools on one card: what one holds, the others cannot have.
struct Card {
  std::size_t left = 32 * kMiB;
};
class CardArena final : public Arena {
 public:
  CardArena(Card& card, std::size_t addresses) : card_(card), addresses_(addresses) {}
  std::byte* base() const noexcept override {
    return reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);
  }
  std::size_t addresses() const noexcept override { return addresses_; }
  std::size_t granule() const noexcept override { return kMiB; }
  void commit(std::size_t, std::size_t bytes) override {
    if (bytes > card_.left) throw Error(Code::exhausted, "the card is full");
    card_.left -= bytes;
  }
  void decommit(std::size_t, std::size_t bytes) noexcept override { card_.left += bytes; }

 private:
  Card& card_;
  std::size_t addresses_;
};

PoolsOptions on(Card& card) {
  return {.make_arena = [&card](std::string_view, std::size_t addresses) {
    return std::make_unique<CardArena>(card, addresses);
  }};
}

TEST(Pools, AreExactlyTheFourPools) {
  Pools pools({});
  std::vector<std::string> names;
  for (const PoolReport& report : pools.report()) names.push_back(report.pool.name);
  EXPECT_THAT(names, ElementsAre("default", "workspace", "persistent", "shared"));
  EXPECT_THROW(pools.get("other"), Error);
}

TEST(Pools, AreOnlyTheNamedPools) {
  Pools pools({}, {.names = {"workspace"}});
  EXPECT_THAT(pools.report(), SizeIs(1));
  EXPECT_NO_THROW(pools.get("workspace"));
  EXPECT_THROW(pools.get("default"), Error);
}

TEST(Pools, ShareOneBudgetAndLendUnusedMemory) {
  Pools pools({}, {.names = {"workspace", "persistent"}, .budget = 32 * kMiB});
  Buffer kept(pools.get("persistent"), 10 * kMiB);
  Buffer scratch(pools.get("workspace"), 20 * kMiB);
  EXPECT_THROW(Buffer(pools.get("workspace"), 20 * kMiB), Error);
  kept.reset();  // still held by its pool
  scratch.reset();
  EXPECT_NO_THROW(Buffer(pools.get("persistent"), 30 * kMiB));
  std::size_t committed = 0;
  for (const PoolReport& report : pools.report()) committed += report.pool.committed;
  EXPECT_LE(committed, 32 * kMiB);
}

TEST(Pools, TakeStrategySizesAndCeilingFromTheSettings) {
  MemoryConfig config;
  config.strategy["workspace"] = "buddy";
  config.initial_mb["workspace"] = 8;
  config.ceiling_gb["workspace"] = 0.015625;
  Pools pools(config);
  const PoolStatistics s = pools.report()[1].pool;
  EXPECT_EQ(s.strategy, StrategyKind::buddy);
  EXPECT_EQ(s.committed, 8 * kMiB);
  EXPECT_EQ(s.grantable, 16 * kMiB);
  EXPECT_THROW((void)pools.get("workspace").allocate(16 * kMiB + 1), Error);
  EXPECT_EQ(pools.report()[1].counts.failures, 1u);
}

TEST(Pools, AskTheOthersToTrimBeforeTheyGiveUp) {
  Card card;
  Pools pools({}, on(card));
  { const Buffer gone(pools.get("persistent"), 30 * kMiB); }
  EXPECT_LT(card.left, 3 * kMiB);  // persistent keeps what it had
  const Buffer block(pools.get("default"), 20 * kMiB);
  EXPECT_EQ(pools.report()[2].pool.committed, 0u);
  EXPECT_THROW((void)pools.get("shared").allocate(20 * kMiB), Error);
}

TEST(Pools, ReportWhatAnOwnerLeavesBehind) {
  std::vector<Leak> leaks;
  Pools pools({}, {.on_leak = [&](const Leak& leak) { leaks.push_back(leak); }});
  void* left = nullptr;
  {
    const auto scout = pools.lend("default", "scout");
    left = scout->allocate(12345);
    const Buffer fine(*scout, 10);
  }
  ASSERT_THAT(leaks, SizeIs(1));
  EXPECT_EQ(leaks[0].owner, "default/scout");
  EXPECT_EQ(leaks[0].bytes, 12345u);
  pools.get("default").deallocate(left, 12345);
}

TEST(Pools, ReportAnOwnerThatGrows) {
  std::vector<Growth> growths;
  Pools pools({}, {.on_growth = [&](const Growth& growth) { growths.push_back(growth); }});
  const auto scout = pools.lend("shared", "scout");
  std::vector<Buffer> hoard;
  for (int i = 0; i < 60; ++i) {
    hoard.emplace_back(*scout, 20 * kMiB);
    pools.sample(Instant{} + std::chrono::seconds(i * 10));
  }
  ASSERT_THAT(growths, SizeIs(1));
  EXPECT_EQ(growths[0].owner, "shared/scout");
}

TEST(Pools, ReportTheirStatisticsAsJson) {
  Pools pools({});
  const auto scout = pools.lend("default", "scout");
  const Buffer block(*scout, 1000);
  const Json json = to_json(pools.report());
  const Json& first = json["pools"][0];
  EXPECT_EQ(first["name"], "default");
  EXPECT_EQ(first["strategy"], "best_fit");
  EXPECT_EQ(first["used"], 1000);
  EXPECT_EQ(first["taken"], 1024);
  EXPECT_EQ(first["count"], 1);
  EXPECT_EQ(first["owners"][0]["owner"], "scout");
  EXPECT_EQ(first["owners"][0]["used"], 1000);
  EXPECT_EQ(json["pools"].size(), 4u);
}

TEST(Pools, DefragmentByMoving) {
  MemoryConfig config;
  config.growth_mb["default"] = 4;
  Pools pools(config);
  Allocator& pool = pools.get("default");
  Buffer low(pool, kMiB);
  void* high = pool.allocate(kMiB);
  pools.set_mover("default", high, kMiB, [&](void* from, void* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    high = to;
  });
  void* const place = low.data();
  low.reset();
  EXPECT_EQ(pools.defragment().bytes, kMiB);
  EXPECT_EQ(high, place);
  EXPECT_THAT(pools.map("default"), SizeIs(2));
  pool.deallocate(high, kMiB);
  EXPECT_GT(pools.trim(), 0u);
}

TEST(Pools, AreSafeToShareBetweenThreads) {
  Pools pools({});
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto mine = pools.lend(kPoolNames[t % 2], "thread");
      std::mt19937 random(t);
      std::vector<Buffer> held(16);
      for (int i = 0; i < 2000; ++i) {
        Buffer& slot = held[random() % held.size()];
        slot.reset();
        slot = Buffer(*mine, random() % 100'000);
        std::memset(slot.data(), 1, std::min<std::size_t>(slot.bytes(), 100));
        if (i % 200 == 0) pools.trim();
        if (i % 200 == 100) (void)pools.report();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const PoolReport& report : pools.report()) EXPECT_EQ(report.pool.used, 0u);
}

TEST(MemoryConfig, RoundTripsBetweenProcesses) {
  MemoryConfig config;
  config.strategy["shared"] = "buddy";
  config.initial_mb["default"] = 2;
  config.growth_mb["workspace"] = 3;
  config.ceiling_gb["persistent"] = 0.5;
  const auto other = memory_config_from(to_json(config).dump());
  EXPECT_EQ(other.strategy, config.strategy);
  EXPECT_EQ(other.initial_mb, config.initial_mb);
  EXPECT_EQ(other.growth_mb, config.growth_mb);
  EXPECT_EQ(other.ceiling_gb, config.ceiling_gb);
  for (const char* wrong : {"", "{}", "[]", R"({"strategy": 1})"})
    EXPECT_THROW(memory_config_from(wrong), Error) << wrong;
}

TEST(MemoryConfig, NamesEachError) {
  MemoryConfig config;
  std::vector<std::string> found;
  config.check_together(found);
  EXPECT_THAT(found, IsEmpty());
  config.strategy["wokspace"] = "buddy";
  config.initial_mb["default"] = 2048;
  config.ceiling_gb["default"] = 1;
  config.check_together(found);
  EXPECT_THAT(found, ElementsAre(HasSubstr("wokspace"), HasSubstr("initial_mb of default")));
}

}  // namespace
}  // namespace sluice::memory
