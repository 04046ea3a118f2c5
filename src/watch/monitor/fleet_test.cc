#include "watch/monitor/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::watch {
namespace {

using device::Canary;
using device::HealthState;
using device::Metric;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Instant kStart{std::chrono::hours(1)};
Instant at(double s) { return kStart + std::chrono::duration_cast<Steady::duration>(Seconds(s)); }

device::Gpu gpu(const std::string& uuid, const std::string& bus) {
  device::Gpu g{};
  g.vendor = device::Vendor::nvidia;
  g.uuid = uuid;
  g.bus = bus;
  return g;
}

class FleetTest : public testing::Test {
 protected:
  FleetTest() : fleet({}) {
    fleet.apply(device::Found{{gpu("A", "0000:09:00.0"), gpu("B", "0000:04:00.0")}, {}}, at(0));
    sample("A", 0);
    sample("B", 0);
    fleet.step(at(0));
  }
  void sample(const std::string& uuid, double s,
              std::vector<std::pair<Metric, double>> values = {{Metric::power, 100}}) {
    fleet.apply(device::Sample{uuid, at(s), std::move(values), {}, {}}, at(s));
  }
  HealthState state(const std::string& uuid) { return fleet.find(uuid)->health.state; }

  Fleet fleet;
};

TEST_F(FleetTest, GpusAreOrderedByBus) {
  const auto views = fleet.views();
  ASSERT_EQ(views.size(), 2U);
  EXPECT_EQ(views[0].gpu.uuid, "B");
}

TEST_F(FleetTest, HasAllGpusUnlessANewOneComesWithHalfAList) {
  EXPECT_FALSE(Fleet({}).has_all());
  EXPECT_TRUE(fleet.has_all());
  const auto a = gpu("A", "0000:09:00.0"), c = gpu("C", "0000:01:00.0");
  fleet.apply(device::Found{{a}, {}, "", false}, at(1));  // a new sampler: A is known
  EXPECT_TRUE(fleet.has_all());
  fleet.apply(device::Found{{a, c}, {}, "", false}, at(1));
  EXPECT_FALSE(fleet.has_all());
  fleet.apply(device::Found{{a, c}, {}, "", true}, at(1));
  EXPECT_TRUE(fleet.has_all());
}

TEST_F(FleetTest, ALostGpuKeepsItsLastValuesAndTheirAge) {
  fleet.apply(device::Trouble{"A", at(1), "GPU is lost", true}, at(1));
  const auto changes = fleet.step(at(1));
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].uuid, "A");
  EXPECT_EQ(changes[0].health.cause, "GPU is lost");
  EXPECT_TRUE(fleet.any_gone());
  EXPECT_EQ(fleet.find("A")->readings.at(Metric::power)->at, at(0));
  EXPECT_EQ(state("B"), HealthState::healthy);
}

TEST_F(FleetTest, ReturnsByCanary) {
  fleet.apply(device::Trouble{"A", at(1), "GPU is lost", true}, at(1));
  fleet.step(at(1));
  sample("A", 3);
  EXPECT_FALSE(fleet.any_gone());
  fleet.step(at(3));
  EXPECT_EQ(state("A"), HealthState::probation);
  EXPECT_THAT(fleet.wanting_canary(), ElementsAre("A"));
  fleet.report_canary("A", Canary::running, "");
  EXPECT_THAT(fleet.wanting_canary(), IsEmpty());
  fleet.step(at(4));
  fleet.report_canary("A", Canary::passed, "");
  fleet.step(at(5));
  EXPECT_EQ(state("A"), HealthState::healthy);
}

TEST_F(FleetTest, AGpuLostWhileItsCanaryRanGetsAnotherOne) {
  fleet.apply(device::Trouble{"A", at(1), "GPU is lost", true}, at(1));
  fleet.step(at(1));
  sample("A", 3);
  fleet.step(at(3));
  fleet.report_canary("A", Canary::running, "");
  fleet.apply(device::Trouble{"A", at(4), "GPU is lost", true}, at(4));
  fleet.step(at(4));
  ASSERT_EQ(state("A"), HealthState::lost);
  sample("A", 60);
  fleet.step(at(60));
  EXPECT_EQ(state("A"), HealthState::probation);
  EXPECT_THAT(fleet.wanting_canary(), ElementsAre("A"));
}

TEST_F(FleetTest, AGpuThatTheSamplerNoLongerReadsIsLost) {
  for (int quarter = 1; quarter <= 12; ++quarter) {
    const double s = quarter / 4.0;
    sample("B", s);
    fleet.apply(device::Beat{at(s), {}, {}}, at(s));
    fleet.step(at(s));
    EXPECT_EQ(state("A"), s < 2.5 ? HealthState::healthy : HealthState::lost) << s;
  }
  EXPECT_EQ(fleet.find("A")->health.cause, "the sampler runs but no longer reads it");
  EXPECT_TRUE(fleet.any_gone());
  EXPECT_EQ(state("B"), HealthState::healthy);
}

TEST_F(FleetTest, AGpuReadFromFilesMayBeSlower) {
  auto card = gpu("C", "0000:0a:00.0");
  card.vendor = device::Vendor::amd;
  fleet.apply(device::Found{{card}, {}}, at(0));
  fleet.apply(device::Beat{at(3), {}, {}}, at(3));
  fleet.step(at(3));
  EXPECT_EQ(state("C"), HealthState::healthy);
  fleet.apply(device::Beat{at(5), {}, {}}, at(5));
  fleet.step(at(5));
  EXPECT_EQ(state("C"), HealthState::lost);
}

TEST_F(FleetTest, ANewSamplerGetsAMomentForItsFirstSamples) {
  fleet.apply(device::Found{{gpu("A", "0000:09:00.0"), gpu("B", "0000:04:00.0")}, {}}, at(2));
  fleet.apply(device::Beat{at(3), {}, {}}, at(3));
  fleet.step(at(3));
  EXPECT_EQ(state("A"), HealthState::healthy);
  EXPECT_FALSE(fleet.any_gone());
}

TEST_F(FleetTest, OnlySilenceWithoutAHangRequestsAFreshSampler) {
  fleet.apply(device::Beat{at(1), {{"A", "nvmlDeviceGetPowerUsage", at(0)}}, {}}, at(1));
  EXPECT_FALSE(fleet.any_gone());
  fleet.apply(device::Trouble{"B", at(1), "Unknown Error", false}, at(1));
  EXPECT_TRUE(fleet.any_gone());
  sample("B", 1.2);
  EXPECT_FALSE(fleet.any_gone());
}

TEST_F(FleetTest, ACallThatDoesNotReturnIsSilenceFromItsBeginning) {
  const device::Beat beat{at(2), {{"A", "nvmlDeviceGetPowerUsage", at(1)}}, {}};
  sample("B", 2);
  fleet.apply(beat, at(2));
  fleet.step(at(2.4));
  EXPECT_EQ(state("A"), HealthState::healthy);
  fleet.step(at(2.5));
  EXPECT_EQ(state("A"), HealthState::lost);
  EXPECT_EQ(fleet.find("A")->health.cause, "hangs in nvmlDeviceGetPowerUsage");
  EXPECT_EQ(state("B"), HealthState::healthy);
}

TEST_F(FleetTest, ABusyThreadIsNotAHang) {
  for (int i = 1; i < 10; ++i) {
    sample("A", i);
    fleet.apply(device::Beat{at(i), {{"A", "nvmlDeviceGetPowerUsage", at(i - 0.01)}}, {}}, at(i));
    fleet.step(at(i + 0.2));
  }
  EXPECT_EQ(state("A"), HealthState::healthy);
}

TEST_F(FleetTest, ASilentSamplerLosesAllUntilEachIsSeenAgain) {
  fleet.silence_all(at(1), "the sampler process hangs");
  fleet.step(at(2.5));
  EXPECT_EQ(state("A"), HealthState::lost);
  EXPECT_EQ(state("B"), HealthState::lost);
  sample("A", 4);
  fleet.step(at(4));
  EXPECT_EQ(state("A"), HealthState::probation);
  EXPECT_EQ(state("B"), HealthState::lost);
}

TEST_F(FleetTest, AQuickRestartOfTheSamplerLosesNothing) {
  fleet.silence_all(at(1), "the sampler process ended: signal 9");
  fleet.step(at(1.2));
  sample("A", 1.5);
  sample("B", 1.5);
  fleet.step(at(3));
  EXPECT_EQ(state("A"), HealthState::healthy);
  EXPECT_EQ(state("B"), HealthState::healthy);
}

TEST_F(FleetTest, XidsAreKeptCountedAndJudgedOnce) {
  fleet.apply(device::XidSeen{"A", {48, at(1), {}}}, at(1));
  fleet.step(at(1));
  EXPECT_EQ(state("A"), HealthState::degraded);
  sample("A", 12);
  fleet.step(at(12));
  EXPECT_EQ(state("A"), HealthState::healthy);
  EXPECT_EQ(fleet.find("A")->xids.size(), 1U);
  EXPECT_EQ(fleet.find("A")->readings.value(Metric::xid_count), 1);
  EXPECT_EQ(fleet.find("A")->readings.value(Metric::xid_last), 48);
}

TEST_F(FleetTest, AResetIsProposedForThisGpuByItsBus) {
  fleet.apply(device::XidSeen{"B", {95, at(1), {}}}, at(1));
  fleet.step(at(1));
  EXPECT_EQ(fleet.find("B")->health.fix,
            "stop what uses the GPU and reset it: nvidia-smi --gpu-reset -i 0000:04:00.0");
}

TEST_F(FleetTest, OnlyGrowingMemoryErrorsAreAFault) {
  sample("A", 1, {{Metric::ecc_uncorrected, 7}});
  fleet.step(at(1));
  EXPECT_EQ(state("A"), HealthState::healthy);  // they were there before us
  sample("A", 2, {{Metric::ecc_uncorrected, 8}});
  fleet.step(at(2));
  EXPECT_EQ(state("A"), HealthState::degraded);
}

TEST_F(FleetTest, AnAbsentValueIsForgotten) {
  fleet.apply(device::Sample{"A", at(1), {}, {Metric::power}, {}}, at(1));
  EXPECT_EQ(fleet.find("A")->readings.value(Metric::power), std::nullopt);
}

TEST_F(FleetTest, OldReadingsOfASilentGpuAreNoEvidence) {
  sample("A", 1, {{Metric::recovery_action, 1}});
  fleet.apply(device::Trouble{"A", at(1), "GPU is lost", true}, at(1));
  fleet.step(at(1));
  EXPECT_EQ(fleet.find("A")->health.cause, "GPU is lost");
}

TEST_F(FleetTest, GhostUtilizationIsDetected) {
  sample("A", 1,
         {{Metric::utilization, 100}, {Metric::memory_used, 0}, {Metric::process_count, 0}});
  fleet.step(at(1));
  EXPECT_TRUE(fleet.find("A")->ghost_utilization);
  EXPECT_FALSE(fleet.find("B")->ghost_utilization);
}

TEST_F(FleetTest, MessagesAboutUnknownGpusAreIgnored) {
  fleet.apply(device::Trouble{"C", at(1), "lost", true}, at(1));
  fleet.apply(device::XidSeen{"C", {79, at(1), {}}}, at(1));
  sample("C", 1);
  EXPECT_EQ(fleet.views().size(), 2U);
}

}  // namespace
}  // namespace sluice::watch
