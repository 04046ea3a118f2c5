// Memory that grows without end, by its owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "watch/alerts/alert_engine.h"
#include "watch/alerts/scene_for_tests.h"

namespace sluice::watch {
namespace {

using testing::HasSubstr;

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

class MemoryGrowth : public testing::Test {
 protected:
  MemoryGrowth() {
    scene.snapshot.owners = {{OwnerMemory::Kind::lease,
                              "lease-12",
                              "scout",
                              "lease 12 of scout (pid 4711)",
                              {},
                              std::uint64_t{8} << 30}};
  }

  // A sample every five seconds for so long, and a list of processes as often or more rarely;
  // what was reported on the way.
  std::vector<Transition> run(double seconds, const std::function<double(double)>& used,
                              double list_every = 5) {
    std::vector<Transition> all;
    for (double end = passed + seconds; passed < end; passed += 5) {
      scene.pass(5);
      if (std::fmod(passed, list_every) == 0)
        for (auto& owner : scene.snapshot.owners) owner.used = {used(passed), scene.snapshot.at};
      for (auto& t : engine.evaluate(scene.snapshot)) all.push_back(std::move(t));
    }
    return all;
  }

  Scene scene;
  AlertEngine engine{default_rules()};
  double passed = 0;
};

TEST_F(MemoryGrowth, IsReportedOnceWithOwnerRateBeginningAndPromise) {
  const auto leak = [](double t) { return kGiB + 100 * kMiB / 60 * t; };
  const std::string began = iso_time(scene.snapshot.wall + std::chrono::seconds(5));
  const auto all = run(1800, leak);
  ASSERT_EQ(kinds(all), "F");
  const Alert& a = all[0].alert;
  EXPECT_EQ(a.id, "lease-memory-growth/lease-12");
  EXPECT_EQ(a.unit, "bytes_per_minute");
  EXPECT_NEAR(a.value, 100 * kMiB, kMiB);
  EXPECT_THAT(a.summary, HasSubstr("lease 12 of scout (pid 4711): lease_memory"));
  EXPECT_THAT(a.cause, HasSubstr("scout"));
  EXPECT_THAT(a.cause, HasSubstr("100.0 MiB a minute since " + began));
  EXPECT_THAT(a.cause, HasSubstr("8.0 GiB are promised, reached in 1 h"));
  EXPECT_THAT(a.fix, HasSubstr("what scout keeps"));
}

TEST_F(MemoryGrowth, EndsWhenTheMemoryStaysAndBeginsAgainWithTheLeak) {
  const auto leak = [](double t) { return 100 * kMiB / 60 * t; };
  EXPECT_EQ(kinds(run(600, leak)), "F");
  const auto stays = [&](double) { return leak(600); };
  const auto over = run(900, stays);
  ASSERT_EQ(kinds(over), "R");
  EXPECT_THAT(over[0].alert.resolved_because, HasSubstr("no longer grows"));
  EXPECT_EQ(kinds(run(900, [&](double t) { return leak(t - 900); })), "F");
}

TEST_F(MemoryGrowth, ARateBetweenClearAndThresholdNeitherBeginsNorEndsIt) {
  const auto at_rate = [](double mib) {
    return [mib](double t) { return kGiB + mib * kMiB / 60 * t; };
  };
  EXPECT_EQ(kinds(run(1200, at_rate(40))), "");
  passed = 0;
  EXPECT_EQ(kinds(run(1200, at_rate(100))), "F");
  const double level = at_rate(100)(passed);
  const double from = passed;
  EXPECT_EQ(kinds(run(1800, [&](double t) { return level + 40 * kMiB / 60 * (t - from); })), "");
}

TEST_F(MemoryGrowth, IsSeenThoughProcessesAreListedOnlyOnceAMinute) {
  EXPECT_EQ(kinds(run(
                1800, [](double t) { return 2 * kMiB * t; }, 60)),
            "F");
}

TEST_F(MemoryGrowth, LoadingAModelIsNotALeak) {
  EXPECT_EQ(kinds(run(3600, [](double t) { return std::min(t, 240.0) * 30 * kMiB; })), "");
}

TEST_F(MemoryGrowth, EndsWithItsLease) {
  ASSERT_EQ(kinds(run(600, [](double t) { return 2 * kMiB * t; })), "F");
  scene.snapshot.owners.clear();
  const auto all = run(90, [](double) { return 0; });
  ASSERT_EQ(kinds(all), "R");
  EXPECT_EQ(all[0].alert.resolved_because, "the lease or pool is over");
}

TEST_F(MemoryGrowth, ARuleMayBeForOneOwner) {
  auto rules = default_rules();
  for (auto& rule : rules)
    if (rule.name == "lease-memory-growth") rule.device = "analyst";
  engine.set_rules(rules);
  EXPECT_EQ(kinds(run(900, [](double t) { return 2 * kMiB * t; })), "");
  scene.snapshot.owners[0].owner = "analyst";
  EXPECT_EQ(kinds(run(900, [](double t) { return 2 * kMiB * t; })), "F");
}

TEST_F(MemoryGrowth, GrowthOfAPoolHasItsOwnRule) {
  scene.snapshot.owners[0] = {
      OwnerMemory::Kind::pool, "pool-workspace", "workspace", "memory pool workspace", {}, 0};
  const auto all = run(900, [](double t) { return 2 * kMiB * t; });
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.id, "pool-memory-growth/pool-workspace");
  EXPECT_THAT(all[0].alert.cause, HasSubstr("nothing is promised"));
  EXPECT_THAT(all[0].alert.fix, HasSubstr("memory.ceiling_gb"));
}

}  // namespace
}  // namespace sluice::watch
