#include "broker/enforce/card_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "broker/broker_for_tests.h"

namespace sluice::broker {
namespace {

using device::HealthState;
using device::Metric;
using device::Vendor;
using testing::ElementsAre;
using testing::HasSubstr;

class CardSnapshotTest : public testing::Test {
 protected:
  std::vector<CardSnapshot> look(const std::set<ProcessId>& holders = {}) {
    return card_snapshots_of(host.sample(), host.options.gpu, holders, proc.path);
  }
  void process(std::int64_t pid, std::int64_t parent, std::uint64_t start_time) {
    const auto folder = proc.path + "/" + std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/stat")
        << pid << " (job) S " << parent << " 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 " << start_time
        << " 0";
  }
  Host host{{16, 24}};
  TemporaryFolder proc;
};

TEST_F(CardSnapshotTest, CapacityExcludesTheDriversShareAndKeepsToTheFraction) {
  host.snapshot.gpus[0].readings.set(Metric::memory_reserved, 1.0 * kGb, host.now());
  EXPECT_EQ(look()[0].card.total, 15 * kGb);
  EXPECT_EQ(look()[0].memory_total, 16 * kGb);
  host.options.gpu.memory_fraction = 0.5;
  EXPECT_EQ(look()[0].card.total, 8 * kGb);
  EXPECT_EQ(look()[1].card.total, 12 * kGb);
}

TEST_F(CardSnapshotTest, AGpuThatWasNeverSampledSaysSo) {
  host.snapshot.gpus[0].readings = {};
  const auto s = card_snapshots_of(host.snapshot, host.options.gpu, {}, proc.path);
  EXPECT_FALSE(s[0].card.sampled_at);
}

TEST_F(CardSnapshotTest, HealthDecidesWhetherACardIsUsable) {
  host.snapshot.gpus[0].health.state = HealthState::degraded;
  host.snapshot.gpus[1].health.state = HealthState::lost;
  host.snapshot.gpus[1].health.cause = "GPU is lost";
  const auto s = look();
  EXPECT_TRUE(s[0].card.usable);
  EXPECT_FALSE(s[1].card.usable);
  EXPECT_EQ(s[1].card.why_unusable, "lost: GPU is lost");
  host.snapshot.gpus[1].health.state = HealthState::probation;
  EXPECT_FALSE(look()[1].card.usable);
}

TEST_F(CardSnapshotTest, SettingsChooseTheGpus) {
  host.options.gpu.devices = {{"1"}};
  EXPECT_TRUE(look()[0].card.excluded);
  EXPECT_THAT(look()[0].card.why_unusable, HasSubstr("gpu.devices"));
  EXPECT_FALSE(look()[1].card.excluded);
  host.options.gpu.devices = {{"GPU-0"}};
  EXPECT_FALSE(look()[0].card.excluded);
  host.options.gpu.devices = {};
  EXPECT_TRUE(look()[0].card.excluded);
  host.options.gpu.devices = {{"all"}};
  host.options.gpu.enabled = false;
  EXPECT_TRUE(look()[1].card.excluded);
}

TEST_F(CardSnapshotTest, AGpuSplitByMigIsLeftOut) {
  host.snapshot.gpus[0].gpu.mig = device::Mig{true, 2};
  EXPECT_TRUE(look()[0].card.excluded);
  EXPECT_THAT(look()[0].card.why_unusable, HasSubstr("MIG"));
}

TEST_F(CardSnapshotTest, AnIndexCountsNvidiasCardsAsCudaDoes) {
  host.snapshot.gpus[0].gpu.vendor = Vendor::amd;
  host.options.gpu.devices = {{"0"}};
  const auto s = look();
  EXPECT_TRUE(s[0].card.excluded);
  EXPECT_FALSE(s[1].card.excluded);
  EXPECT_EQ(s[1].index, 0);
  EXPECT_THAT(find_card_snapshots(s, "0"), testing::ElementsAre(&s[1]));
  EXPECT_THAT(find_card_snapshots(s, "0000:00:00.0"), testing::ElementsAre(&s[0]));
  EXPECT_THAT(find_card_snapshots(s, "7"), testing::IsEmpty());
  EXPECT_THAT(find_card_snapshots(s, "all"), testing::IsEmpty());
}

TEST_F(CardSnapshotTest, NoIndexIsAssignedBeforeAllGpusAreListed) {
  host.snapshot.has_all_gpus = false;
  const auto s = look();
  EXPECT_FALSE(s[0].index);
  EXPECT_EQ(s[0].card.index, "");
  EXPECT_THAT(find_card_snapshots(s, "0"), testing::IsEmpty());
  EXPECT_THAT(find_card_snapshots(s, "GPU-0"), ElementsAre(&s[0]));
  host.options.gpu.devices = {{"GPU-0"}};
  EXPECT_FALSE(look()[0].card.excluded);
  host.options.gpu.devices = {{"0"}};  // which of them may be used is not known
  EXPECT_THAT(look(), testing::IsEmpty());
}

TEST_F(CardSnapshotTest, AWorkerCountsAsTheProcessThatHoldsTheLease) {
  process(100, 1, 5), process(101, 100, 6), process(102, 101, 7), process(200, 1, 8);
  host.run(0, 102, kGb);
  host.run(0, 200, 2 * kGb);
  const auto s = look({{100, 5}});
  ASSERT_EQ(s[0].card.processes.size(), 2U);
  EXPECT_EQ(s[0].card.processes[0].pid, 100);
  EXPECT_EQ(s[0].card.processes[0].start_time, 5U);
  EXPECT_EQ(s[0].card.processes[1].pid, 200);
  EXPECT_EQ(look({{100, 4}})[0].card.processes[0].pid, 102);  // another one had that number
}

TEST_F(CardSnapshotTest, MpsClientsAreKnownWithTheLimitTheyWereStartedWith) {
  process(100, 1, 5), process(101, 100, 6);
  std::ofstream(proc.path + "/100/environ") << "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M";
  host.run(0, 100, kGb, "mps");
  const std::set<ProcessId> holders{{100, 5}};
  EXPECT_THAT(look(holders)[0].mps_limits,
              ElementsAre(testing::Pair(ProcessId{100, 5}, "0=8192M")));
  host.run(0, 101, kGb, "mps");  // its worker has none
  EXPECT_THAT(look(holders)[0].mps_limits, ElementsAre(testing::Pair(ProcessId{100, 5}, "")));
}

TEST_F(CardSnapshotTest, NvlinkNamesTheOtherGpu) {
  host.snapshot.gpus[0].gpu.nvlinks = {
      {0, true, 4, "0000:01:00.0"}, {1, true, 4, "0000:01:00.0"}, {2, false, 4, "0000:09:00.0"}};
  EXPECT_THAT(look()[0].card.linked_to, ElementsAre("GPU-1"));
  EXPECT_TRUE(look()[1].card.linked_to.empty());
}

}  // namespace
}  // namespace sluice::broker
