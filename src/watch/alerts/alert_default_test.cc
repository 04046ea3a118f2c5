// The rules everyone starts with, seen from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "watch/alerts/alert_engine.h"
#include "watch/alerts/scene_for_tests.h"

namespace sluice::watch {
namespace {

using device::Metric;
using testing::HasSubstr;
using testing::StartsWith;

struct Seed {
  const char* rule;
  Metric metric;
  double bad, good;
  int seconds;
};

TEST(DefaultRules, HaveTheRequestedThresholds) {
  for (const Seed& s : {Seed{"gpu-utilization", Metric::utilization, 96, 95, 70},
                        Seed{"gpu-temperature", Metric::temperature, 81, 80, 15},
                        Seed{"server-errors", Metric::request_error_rate, 5.1, 5, 15}}) {
    Scene scene;
    AlertEngine fine(default_rules()), engine(default_rules());
    EXPECT_EQ(kinds(scene.hold(fine, s.metric, s.good, 600)), "") << s.rule;
    const auto all = scene.hold(engine, s.metric, s.bad, s.seconds);
    ASSERT_EQ(kinds(all), "F") << s.rule;
    EXPECT_EQ(all[0].alert.rule, s.rule);
    EXPECT_FALSE(all[0].alert.cause.empty());
    EXPECT_FALSE(all[0].alert.fix.empty());
  }
}

TEST(DefaultRules, MemoryIsJudgedAgainstItsTotalOnGpuAndHost) {
  AlertEngine engine(default_rules());
  Scene scene;
  std::string fired;
  for (int i = 0; i < 40; ++i) {
    scene.pass(1);
    scene.set(Metric::memory_total, 100e9), scene.set(Metric::memory_used, 91e9);
    scene.set(Metric::host_memory_total, 64e9), scene.set(Metric::host_memory_used, 60e9);
    for (const auto& t : engine.evaluate(scene.snapshot)) fired += t.alert.rule + " ";
  }
  EXPECT_EQ(fired, "gpu-memory host-memory ");
}

TEST(DefaultRules, AnXidFiresAtOnceWithItsMeaningAndEndsAfterTenMinutes) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.gpu().xids = {{79, scene.snapshot.at, scene.snapshot.wall}};
  const auto all = scene.wait(engine, 1);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "gpu-xid");
  EXPECT_THAT(all[0].alert.summary, HasSubstr("XID 79 ("));
  EXPECT_THAT(all[0].alert.fix, HasSubstr("0000:04:00.0"));
  EXPECT_EQ(kinds(scene.wait(engine, 598)), "");
  EXPECT_EQ(kinds(scene.wait(engine, 3)), "R");
}

TEST(DefaultRules, AnXidOfTheApplicationIsOnlyForInformation) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.gpu().xids = {{13, scene.snapshot.at, scene.snapshot.wall}};
  const auto all = scene.wait(engine, 1);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "gpu-xid-application");
  EXPECT_EQ(all[0].alert.severity, Severity::info);
}

TEST(DefaultRules, AnXidOfTheHardwareIsNotBlamedOnAProgram) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.gpu().xids = {{63, scene.snapshot.at, scene.snapshot.wall}};
  const auto all = scene.wait(engine, 1);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "gpu-xid-notice");
}

TEST(DefaultRules, ACardTakenOutOfServiceStillReportsItsDamageWhileItAnswers) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.hold(engine, Metric::rows_failed, 0, 1);
  scene.gpu().health.state = device::HealthState::lost;
  std::string fired;
  for (const auto& t : scene.hold(engine, Metric::rows_failed, 1, 1)) fired += t.alert.rule + " ";
  EXPECT_THAT(fired, HasSubstr("gpu-rows-failed"));
}

TEST(DefaultRules, BadMemoryRowsAndEccErrorsFireAtOnce) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.hold(engine, Metric::ecc_uncorrected, 0, 3);
  EXPECT_EQ(scene.hold(engine, Metric::ecc_uncorrected, 1, 1).at(0).alert.rule, "gpu-ecc");
  EXPECT_EQ(scene.hold(engine, Metric::rows_pending, 1, 1).at(0).alert.rule, "gpu-rows-pending");
  EXPECT_EQ(scene.hold(engine, Metric::rows_failed, 1, 1).at(0).alert.rule, "gpu-rows-failed");
}

TEST(DefaultRules, AHungSamplerIsReportedWithItsCall) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.snapshot.sampler.state = "hung in nvmlInit_v2";
  const auto all = scene.wait(engine, 15);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "sampler-down");
  EXPECT_THAT(all[0].alert.summary, HasSubstr("the sampler has not answered for "));
  EXPECT_THAT(all[0].alert.cause, HasSubstr("hung in nvmlInit_v2"));
  scene.snapshot.sampler.state = "not needed: no NVIDIA driver";
  EXPECT_EQ(kinds(scene.wait(engine, 15)), "R");
}

TEST(DefaultRules, ADriverThatDoesNotStartIsReportedWithCauseAndFix) {
  AlertEngine engine(default_rules());
  Scene scene;
  auto& sampler = scene.snapshot.sampler;
  sampler.driver_trouble =
      "NVIDIA: driver and library versions differ; reload the modules, or reboot";
  sampler.state = "no driver: " + sampler.driver_trouble;
  const auto all = scene.wait(engine, 15);
  ASSERT_EQ(kinds(all), "F");  // and nothing about the sampler, which is well
  EXPECT_EQ(all[0].alert.rule, "driver-down");
  EXPECT_THAT(all[0].alert.summary, testing::ContainsRegex("the GPU driver has not started for "));
  EXPECT_THAT(all[0].alert.cause, HasSubstr("versions differ:"));
  EXPECT_THAT(all[0].alert.fix, HasSubstr("reload the modules, or reboot."));
  sampler.driver_trouble.clear();
  sampler.state = "running";
  EXPECT_EQ(kinds(scene.wait(engine, 15)), "R");
}

TEST(DefaultRules, ASamplerThatIsOnlyStartingIsNotDown) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.snapshot.sampler.state = "starting";
  EXPECT_EQ(kinds(scene.wait(engine, 60)), "");
}

TEST(DefaultRules, AServerIsSlowOnlyWhenSomeoneCouldNotice) {
  AlertEngine engine(default_rules());
  Scene scene;
  EXPECT_EQ(kinds(scene.hold(engine, Metric::request_p50, 0.2, 3600)), "");
  EXPECT_EQ(kinds(scene.hold(engine, Metric::request_p50, 0.9, 300)), "");
  const auto all = scene.hold(engine, Metric::request_p50, 9, 300);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "server-slow");
}

TEST(DefaultRules, HistoryThatCannotBeWrittenIsReportedWithTheReason) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.snapshot.history_trouble = "disk is full";
  const auto all = scene.wait(engine, 40);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_THAT(all[0].alert.cause, HasSubstr("(disk is full)"));
  scene.snapshot.history_trouble.clear();
  EXPECT_EQ(kinds(scene.wait(engine, 40)), "R");
}

TEST(DefaultRules, DamagedLeasesAreReportedUntilTheReportIsRemoved) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.snapshot.lease_store.damage = "Monday the log is damaged\nTuesday the log is gone\n";
  const auto all = scene.wait(engine, 2);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "leases-damaged");
  EXPECT_THAT(all[0].alert.cause, StartsWith("Tuesday the log is gone. "));
  scene.snapshot.lease_store.damage.clear();
  EXPECT_EQ(kinds(scene.wait(engine, 2)), "R");
}

TEST(DefaultRules, LeasesThatCannotBeStoredAreReportedWithTheReason) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.snapshot.lease_store.trouble = "the disk is full";
  const auto all = scene.wait(engine, 4);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_THAT(all[0].alert.cause, HasSubstr("(the disk is full)"));
  scene.snapshot.lease_store.trouble.clear();
  EXPECT_EQ(kinds(scene.wait(engine, 4)), "R");
}

}  // namespace
}  // namespace sluice::watch
