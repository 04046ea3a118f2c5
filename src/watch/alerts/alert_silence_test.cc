#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "watch/alerts/alert_engine.h"
#include "watch/alerts/scene_for_tests.h"

namespace sluice::watch {
namespace {

using device::Metric;

TEST(AlertEngine, ASilencedAlertIsShownButNotDelivered) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.wait(engine, 1);
  engine.silence("hot", "GPU-1", scene.snapshot.wall + std::chrono::hours(1), scene.snapshot.wall);
  auto all = scene.hold(engine, Metric::temperature, 84, 20);
  ASSERT_EQ(kinds(all), "F");
  EXPECT_FALSE(all[0].deliver);
  EXPECT_TRUE(engine.active()[0].silenced_until);
  all = scene.hold(engine, Metric::temperature, 70, 20);
  ASSERT_EQ(kinds(all), "R");
  EXPECT_FALSE(all[0].deliver);
}

TEST(AlertEngine, AnAlertThatOutlastsItsSilenceIsDeliveredThen) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.wait(engine, 1);
  engine.silence("*", "*", scene.snapshot.wall + std::chrono::seconds(60), scene.snapshot.wall);
  EXPECT_EQ(kinds(scene.hold(engine, Metric::temperature, 84, 58)), "F");
  const auto all = scene.hold(engine, Metric::temperature, 84, 10);
  ASSERT_EQ(kinds(all), "U");
  EXPECT_TRUE(all[0].deliver);
  EXPECT_FALSE(all[0].alert.silenced_until);
}

TEST(AlertEngine, TheEndOfADeliveredAlertIsDeliveredEvenWhenSilencedSince) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  engine.silence("hot", "*", scene.snapshot.wall + std::chrono::hours(1), scene.snapshot.wall);
  const auto all = scene.hold(engine, Metric::temperature, 70, 20);
  ASSERT_EQ(kinds(all), "R");
  EXPECT_TRUE(all[0].deliver);
}

Code code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::internal;
}

TEST(AlertEngine, ASilenceForAnUnknownNameOrThePastIsRefused) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.wait(engine, 1);
  const auto now = scene.snapshot.wall, later = now + std::chrono::hours(1);
  EXPECT_EQ(code_of([&] { engine.silence("hott", "*", later, now); }), Code::not_found);
  EXPECT_EQ(code_of([&] { engine.silence("hot", "GPU-9", later, now); }), Code::not_found);
  EXPECT_EQ(code_of([&] { engine.silence("hot", "*", now, now); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { engine.unsilence("hot", "*"); }), Code::not_found);
  EXPECT_NO_THROW(engine.silence("hot", "cpu", later, now));
  EXPECT_NO_THROW(engine.unsilence("hot", "cpu"));
}

TEST(AlertEngine, SilencesAndRecentAlertsSurviveARestart) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  scene.hold(engine, Metric::temperature, 70, 20);
  const auto now = scene.snapshot.wall;
  engine.silence("hot", "*", now + std::chrono::hours(1), now);
  engine.silence("*", "cpu", now + std::chrono::seconds(5), now);

  AlertEngine next({hot()});
  next.restore(Json::parse(engine.saved().dump()), now + std::chrono::minutes(1));
  EXPECT_EQ(next.to_json()["silences"].size(), 1u);
  EXPECT_EQ(next.to_json()["recent"], engine.to_json()["recent"]);
  EXPECT_NO_THROW(next.restore(Json::parse(R"({"silences": [3], "recent": 7})"), now));
  EXPECT_NO_THROW(next.restore(Json(), now));
}

TEST(AlertEngine, AnActiveAlertContinuesAfterARestartWithoutBeingDeliveredAgain) {
  AlertEngine engine({hot()});
  Scene scene;
  ASSERT_EQ(kinds(scene.hold(engine, Metric::temperature, 84, 20)), "F");
  const auto since = engine.active().at(0).since;

  AlertEngine next({hot()});
  next.restore(Json::parse(engine.saved().dump()), scene.snapshot.wall);
  EXPECT_EQ(next.saved(), engine.saved());  // also when it is asked before the first look
  EXPECT_EQ(kinds(scene.hold(next, Metric::temperature, 84, 30)), "");
  ASSERT_EQ(next.active().size(), 1u);
  EXPECT_EQ(next.active()[0].since, since);
  const auto end = scene.hold(next, Metric::temperature, 70, 20);
  ASSERT_EQ(kinds(end), "R");
  EXPECT_TRUE(end[0].deliver);
}

TEST(AlertEngine, AnAlertOfADeviceThatIsGoneAfterARestartEnds) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.hold(engine, Metric::temperature, 84, 20);
  AlertEngine next({hot()});
  next.restore(engine.saved(), scene.snapshot.wall);
  scene.snapshot.gpus.clear();
  EXPECT_EQ(kinds(scene.wait(next, 30)), "");  // it may only be slow to show up
  const auto end = scene.wait(next, 60);
  ASSERT_EQ(kinds(end), "R");
  EXPECT_EQ(end[0].alert.resolved_because, "the device is gone");
}

TEST(AlertEngine, AnAlertThatWasSilencedBeforeARestartIsDeliveredWhenTheSilenceEnds) {
  AlertEngine engine({hot()});
  Scene scene;
  scene.wait(engine, 1);
  const auto now = scene.snapshot.wall;
  engine.silence("hot", "*", now + std::chrono::seconds(60), now);
  ASSERT_EQ(kinds(scene.hold(engine, Metric::temperature, 84, 20)), "F");
  AlertEngine next({hot()});
  next.restore(engine.saved(), scene.snapshot.wall);
  EXPECT_EQ(kinds(scene.hold(next, Metric::temperature, 84, 60)), "U");
}

}  // namespace
}  // namespace sluice::watch
