#include "serve/pool_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "memory/pool/pools.h"

namespace sluice::serve {
namespace {

memory::MemoryConfig settings() {
  memory::MemoryConfig set;
  set.strategy["workspace"] = "buddy";
  set.ceiling_gb["workspace"] = 0.25;
  set.growth_mb["persistent"] = 32;
  return set;
}

TEST(PoolView, SettingsAreShownBeforeAWorkerExists) {
  const auto json = pool_view(settings(), {});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["name"], "workspace");
  EXPECT_EQ(json[0]["strategy"], "buddy");
  EXPECT_EQ(json[0]["ceiling_gb"], 0.25);
  EXPECT_EQ(json[0]["live"], false);
  EXPECT_FALSE(json[0].contains("held_gb"));
  EXPECT_EQ(json[1]["name"], "persistent");
  EXPECT_EQ(json[1]["growth_mb"], 32);
  EXPECT_TRUE(json[1]["ceiling_gb"].is_null());
}

TEST(PoolView, LivePoolsShowTheirCommittedMemory) {
  memory::Pools pools(settings(), {.names = {"workspace", "persistent"}});
  const memory::Buffer block(pools.get("workspace"), 100 << 20);
  EXPECT_THROW(memory::Buffer(pools.get("workspace"), 200 << 20), Error);
  std::vector<memory::PoolStatistics> made;
  for (auto& report : pools.report()) made.push_back(std::move(report.pool));
  const auto json = pool_view({}, made);  // what they are counts, not what is set now
  EXPECT_EQ(json[0]["strategy"], "buddy");
  EXPECT_EQ(json[0]["ceiling_gb"], 0.25);
  EXPECT_EQ(json[0]["live"], true);
  EXPECT_EQ(json[0]["used_gb"], 0.097656);
  EXPECT_EQ(json[0]["held_gb"], 0.125);
  EXPECT_GT(json[0]["refused"], 0);
  EXPECT_EQ(json[1]["held_gb"], 0);
}

TEST(PoolOwners, PoolOwnersHoldCommittedBytesWithTheCeilingAsPromise) {
  memory::PoolStatistics pool;
  pool.name = "workspace", pool.committed = 5 << 20, pool.ceiling = 7 << 20;
  auto open = pool;
  open.ceiling = static_cast<std::size_t>(-1);
  const auto owners = pool_owners({pool, open}, Instant(std::chrono::hours(1)));
  EXPECT_EQ(owners[0].id, "pool-workspace");
  EXPECT_EQ(owners[0].used.value, 5 << 20);
  EXPECT_EQ(owners[0].promised, 7u << 20);
  EXPECT_EQ(owners[1].promised, 0u);
}

}  // namespace
}  // namespace sluice::serve
