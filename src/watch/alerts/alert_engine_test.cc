#include "watch/alerts/alert_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "watch/alerts/scene_for_tests.h"

namespace sluice::watch {
namespace {

using device::HealthState;
using device::Metric;
using testing::HasSubstr;

// ---- the state machine, as a table

struct Segment {
  double value;
  int seconds;
};
struct Case {
  const char* what;
  const char* condition;
  double threshold, clear, for_s;
  std::vector<Segment> series;
  const char* expected;  // F fired, R resolved
};

class RuleTable : public testing::TestWithParam<Case> {};

TEST_P(RuleTable, FiresAndResolvesAsTheRuleSays) {
  const Case& c = GetParam();
  Rule rule = hot();
  rule.condition = c.condition;
  rule.threshold = c.threshold, rule.clear = c.clear, rule.for_s = c.for_s;
  ASSERT_THAT(problems(std::vector{rule}), testing::IsEmpty());
  AlertEngine engine({rule});
  Scene scene;
  std::vector<Transition> all;
  for (const auto& s : c.series)
    for (auto& t : scene.hold(engine, Metric::temperature, s.value, s.seconds)) all.push_back(t);
  EXPECT_EQ(kinds(all), c.expected) << c.what;
}

INSTANTIATE_TEST_SUITE_P(
    , RuleTable,
    testing::Values(
        Case{"quiet stays quiet", "above", 80, 75, 10, {{79, 60}}, ""},
        Case{"the threshold itself is fine", "above", 80, 75, 0, {{80, 60}}, ""},
        Case{"shorter than for_s is nothing", "above", 80, 75, 10, {{84, 10}, {79, 60}}, ""},
        Case{"for_s later it fires, once", "above", 80, 75, 10, {{84, 60}}, "F"},
        Case{"a dip starts the wait anew", "above", 80, 75, 10, {{84, 9}, {80, 1}, {84, 9}}, ""},
        Case{"between clear and threshold it goes on",
             "above",
             80,
             75,
             10,
             {{84, 20}, {77, 60}},
             "F"},
        Case{"past clear for for_s it ends", "above", 80, 75, 10, {{84, 20}, {75, 12}}, "FR"},
        Case{"a short recovery is none",
             "above",
             80,
             75,
             10,
             {{84, 20}, {74, 9}, {76, 9}, {74, 9}},
             "F"},
        Case{"it can come back", "above", 80, 75, 10, {{84, 20}, {70, 20}, {84, 20}}, "FRF"},
        Case{"no wait, no delay", "above", 80, 75, 0, {{84, 1}, {70, 1}}, "FR"},
        Case{"below is the mirror", "below", 5, 8, 5, {{4, 7}, {7, 30}, {8, 7}}, "FR"},
        Case{"below: the threshold itself is fine", "below", 5, 8, 5, {{5, 60}}, ""},
        Case{"a drop needs a past to compare with",
             "drops_percent",
             20,
             10,
             5,
             {{90, 30}, {45, 60}},
             ""},
        Case{"a drop against the last hour",
             "drops_percent",
             20,
             10,
             10,
             {{90, 600}, {70, 30}},
             "F"},
        Case{"19 % is not 20 %", "drops_percent", 20, 10, 10, {{100, 600}, {81, 60}}, ""},
        Case{"a drop that recovers",
             "drops_percent",
             20,
             10,
             10,
             {{90, 600}, {70, 30}, {90, 30}},
             "FR"},
        Case{"a new level becomes the norm",
             "drops_percent",
             20,
             10,
             10,
             {{90, 600}, {70, 3600}},
             "FR"},
        Case{"a rise against the last hour",
             "rises_percent",
             25,
             10,
             10,
             {{10, 600}, {13, 30}},
             "F"},
        Case{"what a counter was before is no growth", "increases", 0, 0, 0, {{7, 60}}, ""},
        Case{"growth fires and is forgotten after ten minutes",
             "increases",
             0,
             0,
             0,
             {{7, 5}, {8, 601}},
             "FR"},
        Case{
            "a counter that starts anew did not grow", "increases", 0, 0, 0, {{7, 5}, {0, 60}}, ""},
        Case{"growth over the window is summed",
             "increases",
             2,
             0,
             0,
             {{1, 5}, {2, 5}, {3, 5}, {4, 1}},
             "F"}));

// ---- what an alert says

TEST(AlertEngine, AnAlertNamesDeviceValueDurationCauseAndFix) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.gpu().readings.processes = {
      {4711, "python3", "ann", "compute", std::uint64_t{8} << 30, 80.0, {}},
      {12, "Xorg", "", "graphics", std::uint64_t{1} << 30, 1.0, {}}};
  const auto all = scene.hold(engine, Metric::temperature, 84, 13);
  ASSERT_EQ(kinds(all), "F");
  const Alert& a = all[0].alert;
  EXPECT_EQ(a.id, "hot/GPU-1");
  EXPECT_EQ(a.device_name, "NVIDIA H200");
  EXPECT_EQ(a.summary, "NVIDIA H200 0000:04:00.0: temperature 84 C, above 80 C for 10.0 s");
  EXPECT_EQ(a.cause, "NVIDIA H200 0000:04:00.0 at 84 C");
  EXPECT_EQ(a.fix, "cool 0000:04:00.0, or stop python3 (pid 4711) of ann with 8.0 GiB");
  EXPECT_EQ(engine.active()[0].summary,
            "NVIDIA H200 0000:04:00.0: temperature 84 C, above 80 C for 12.0 s");
}

TEST(AlertEngine, ARuleWithoutItsOwnTextStillNamesCauseAndFix) {
  auto rule = hot();
  rule.cause.clear(), rule.fix.clear();
  AlertEngine engine({rule});
  Scene scene;
  const Alert a = scene.hold(engine, Metric::temperature, 84, 13).at(0).alert;
  EXPECT_EQ(a.cause,
            "temperature of NVIDIA H200 0000:04:00.0 is 84 C, above 80 C: what the rule hot was "
            "added to watch for.");
  EXPECT_EQ(a.fix,
            "Look at the process that uses it and at what sluice doctor says. What to do at such a "
            "time can be kept as fix in the rule hot.");
}

TEST(AlertEngine, AProcessNameThatIsNotTextIsNotShown) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.gpu().readings.processes = {{4711, "\xff\xfe", "", "compute", {}, {}, {}}};
  const auto all = scene.hold(engine, Metric::temperature, 84, 13);
  EXPECT_EQ(all.at(0).alert.fix, "cool 0000:04:00.0, or stop pid 4711");
  EXPECT_NO_THROW(engine.to_json().dump());
}

TEST(AlertEngine, AResolvedAlertSaysWhyItIsOverAndIsRemembered) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  const auto all = scene.hold(engine, Metric::temperature, 70, 20);
  ASSERT_EQ(kinds(all), "R");
  EXPECT_EQ(all[0].alert.resolved_because, "temperature is 70 C");
  EXPECT_TRUE(engine.active().empty());
  ASSERT_EQ(engine.recent().size(), 1u);
  EXPECT_TRUE(engine.recent()[0].resolved);
}

TEST(AlertEngine, ADropNamesTheLevelItFellFrom) {
  Rule slow = hot();
  slow.metric = "clock_ratio", slow.condition = "drops_percent", slow.threshold = 20,
  slow.clear = 10;
  AlertEngine engine({slow});
  Scene scene;
  scene.hold(engine, Metric::clock_ratio, 90, 600);
  const auto all = scene.hold(engine, Metric::clock_ratio, 63, 20);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_THAT(all[0].alert.summary, HasSubstr("clock_ratio 63 %, 30 % under its last hour's 90 %"));
  EXPECT_DOUBLE_EQ(all[0].alert.value, 30);
  EXPECT_EQ(all[0].alert.unit, "percent");
}

// ---- evidence

TEST(AlertEngine, OneBadReadingThatNobodyConfirmsIsNoAlert) {
  AlertEngine engine({hot()});
  Scene scene;
  EXPECT_EQ(kinds(scene.hold(engine, Metric::temperature, 99, 1)), "");
  EXPECT_EQ(kinds(scene.wait(engine, 120)), "");
}

TEST(AlertEngine, OnlyALongGapRestartsTheWait) {
  for (const auto& [gap, expected] : {std::pair{20, "F"}, {40, ""}}) {
    AlertEngine engine({hot()});
    Scene scene;
    scene.hold(engine, Metric::temperature, 84, 5);
    scene.gpu().readings.clear(Metric::temperature);
    scene.wait(engine, gap);
    EXPECT_EQ(kinds(scene.hold(engine, Metric::temperature, 84, 3)), expected) << gap;
  }
}

TEST(AlertEngine, AStaleReadingKeepsAnAlertAndFinallyEndsItWithTheReason) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  EXPECT_EQ(kinds(scene.wait(engine, 890)), "");
  EXPECT_EQ(engine.active().size(), 1u);
  const auto all = scene.wait(engine, 20);
  ASSERT_EQ(kinds(all), "R");
  EXPECT_EQ(all[0].alert.resolved_because, "no reading for too long");
}

TEST(AlertEngine, ASlowedSamplerRaisesTheStaleLimit) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.snapshot.sampler.interval_scale = 10;
  std::string seen;
  for (int i = 0; i < 3; ++i) {
    seen += kinds(scene.hold(engine, Metric::temperature, 84, 1));
    seen += kinds(scene.wait(engine, 49));
  }
  EXPECT_EQ(seen, "F");
}

TEST(AlertEngine, ALostGpuEndsItsReadingAlertsAndKeepsOnlyItsHealthAlert) {
  auto rules = default_rules();
  AlertEngine engine(rules);
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  scene.gpu().health.state = HealthState::lost;
  scene.gpu().health.cause = "The GPU fell off the bus (XID 79).";
  scene.gpu().health.fix = "Reboot the machine.";
  const auto all = scene.wait(engine, 1);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].alert.rule, "gpu-temperature");
  EXPECT_EQ(all[0].alert.resolved_because, "the GPU is lost");
  EXPECT_EQ(all[1].alert.rule, "gpu-lost");
  EXPECT_EQ(all[1].alert.cause, "The GPU fell off the bus (XID 79).");
  EXPECT_EQ(all[1].alert.fix, "Reboot the machine.");
  EXPECT_THAT(all[1].alert.summary, HasSubstr("0000:04:00.0: lost"));

  scene.gpu().health = {};
  const auto back = scene.wait(engine, 1);
  ASSERT_EQ(kinds(back), "R");
  EXPECT_EQ(back[0].alert.resolved_because, "answers again and passed its check");
}

TEST(AlertEngine, AStuckCounterIsNotLoadButHasItsOwnAlert) {
  AlertEngine engine(default_rules());
  Scene scene;
  scene.gpu().ghost_utilization = true;
  const auto all = scene.hold(engine, Metric::utilization, 100, 120);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_EQ(all[0].alert.rule, "gpu-ghost-utilization");

  scene.gpu().ghost_utilization = false;
  EXPECT_EQ(kinds(scene.hold(engine, Metric::utilization, 100, 120)), "RF");
}

TEST(AlertEngine, ADeviceThatIsGoneEndsItsAlertsAfterAWhile) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  scene.snapshot.gpus.clear();
  EXPECT_EQ(kinds(scene.wait(engine, 59)), "");
  const auto all = scene.wait(engine, 5);
  ASSERT_EQ(kinds(all), "R");
  EXPECT_EQ(all[0].alert.resolved_because, "the device is gone");
}

// ---- changing rules

TEST(AlertEngine, ARuleThatGoesAwayOrChangesItsMetricEndsItsAlerts) {
  for (const bool removed : {true, false}) {
    AlertEngine engine({hot()});
    Scene scene;
    scene.hold(engine, Metric::temperature, 84, 20);
    Rule other = hot();
    other.metric = "memory_temperature";
    engine.set_rules(removed ? std::vector<Rule>{} : std::vector{other});
    const auto all = scene.wait(engine, 1);
    ASSERT_EQ(kinds(all), "R");
    EXPECT_EQ(all[0].alert.resolved_because, "the rule was removed or changed");
  }
}

TEST(AlertEngine, ARuleForOneDeviceLeavesTheOthersAlone) {
  Rule rule = hot();
  rule.device = "0000:05:00.0";
  AlertEngine engine({rule});
  Scene scene;
  EXPECT_EQ(kinds(scene.hold(engine, Metric::temperature, 99, 60)), "");
  rule.device = "0000:04:00.0";
  engine.set_rules({rule});
  EXPECT_EQ(kinds(scene.hold(engine, Metric::temperature, 99, 60)), "F");
}

TEST(AlertEngine, TheWorstAlertComesFirst) {
  Rule info = hot(), critical = hot();
  info.name = "a", info.severity = Severity::info;
  critical.name = "z", critical.severity = Severity::critical;
  AlertEngine engine({info, hot(), critical});
  Scene scene;
  scene.hold(engine, Metric::temperature, 99, 20);
  const auto active = engine.active();
  ASSERT_EQ(active.size(), 3u);
  EXPECT_EQ(active[0].rule + active[1].rule + active[2].rule, "zhota");
}

// ---- any series

TEST(AlertEngine, NoSeriesMakesAnAlertFlapFasterThanForS) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Rule rule = hot();
    rule.for_s = static_cast<double>(random() % 20);
    rule.clear = 80 - static_cast<double>(random() % 8);
    AlertEngine engine({rule});
    Scene scene;
    std::optional<Instant> last;
    bool firing = false;
    for (int i = 0; i < 400; ++i) {
      scene.pass(0.5);
      if (random() % 3 != 0)
        scene.set(Metric::temperature, 70 + static_cast<double>(random() % 16));
      if (random() % 50 == 0) scene.gpu().readings.clear(Metric::temperature);
      for (const auto& t : engine.evaluate(scene.snapshot)) {
        EXPECT_NE(t.kind == Transition::Kind::fired, firing) << "fired and resolved alternate";
        if (last) {
          EXPECT_GE(seconds_between(*last, scene.snapshot.at), rule.for_s);
        }
        last = scene.snapshot.at, firing = !firing;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::watch
