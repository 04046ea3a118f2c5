#include "watch/alerts/notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "watch/alerts/scene_for_tests.h"
#include "watch/alerts/web_server_for_tests.h"

namespace sluice::watch {
namespace {

using testing::HasSubstr;

Transition hot(Transition::Kind kind) {
  Rule rule{"hot",    "temperature", "above", 80,  75, 0, Severity::critical,
            "no air", "add air",     "*",     true};
  AlertEngine engine({rule});
  Scene scene;
  auto fired = scene.hold(engine, device::Metric::temperature, 84, 1).at(0);
  if (kind == Transition::Kind::fired) return fired;
  return scene.hold(engine, device::Metric::temperature, 70, 1).at(0);
}

TEST(Notify, TheWebhooksBodyIsWhatTheDocumentationSays) {
  const auto body = Json::parse(webhook_body(hot(Transition::Kind::fired), "node7"));
  EXPECT_EQ(body["version"], 1);
  EXPECT_EQ(body["event"], "alert");
  EXPECT_EQ(body["host"], "node7");
  EXPECT_EQ(body["text"],
            "[critical] node7: NVIDIA H200 0000:04:00.0: temperature 84 C, above 80 C");
  EXPECT_EQ(body["alert"]["rule"], "hot");
  EXPECT_EQ(body["alert"]["cause"], "no air");
  EXPECT_EQ(body["alert"]["fix"], "add air");
  EXPECT_TRUE(body["alert"]["resolved"].is_null());
  EXPECT_EQ(body["alert"]["since"], "2026-11-15T03:00:01.000Z");
}

TEST(Notify, AnEventIsOneLineAndSaysWhetherItBeginsOrEnds) {
  const auto begin = event_of(hot(Transition::Kind::fired), {});
  const auto end = event_of(hot(Transition::Kind::resolved), {});
  EXPECT_EQ(begin.type, "alert");
  EXPECT_EQ(end.type, "alert_resolved");
  EXPECT_EQ(begin.json.find('\n'), std::string::npos);
  EXPECT_EQ(Json::parse(end.json)["resolved_because"], "temperature is 70 C");
}

TEST(Notify, ANameThatIsNotUtf8DoesNotStopADelivery) {
  auto t = hot(Transition::Kind::fired);
  t.alert.cause = "process \xff\xfe";
  EXPECT_TRUE(Json::accept(webhook_body(t, "h")));
  EXPECT_TRUE(Json::accept(event_of(t, {}).json));
}

TEST(Notify, DeliversToTheWebhookUnlessSilenced) {
  WebServer server({200});
  {
    Notifier notifier("http://127.0.0.1:" + std::to_string(server.port()) + "/");
    auto silenced = hot(Transition::Kind::fired);
    silenced.deliver = false;
    notifier.deliver(silenced);
    notifier.deliver(hot(Transition::Kind::resolved));
    EXPECT_THAT(notifier.to_json().dump(), HasSubstr("127.0.0.1"));
  }
  const auto bodies = server.bodies();
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_EQ(Json::parse(bodies[0])["event"], "alert_resolved");
}

TEST(Notify, TheAddressMayChangeAndABadOneOnlyLogs) {
  Notifier notifier("gopher://x");
  EXPECT_TRUE(notifier.to_json()["webhook"].is_null());
  notifier.deliver(hot(Transition::Kind::fired));
  WebServer server({200});
  notifier.set_webhook("http://127.0.0.1:" + std::to_string(server.port()) + "/");
  notifier.deliver(hot(Transition::Kind::fired));
  notifier.set_webhook("");
  EXPECT_TRUE(notifier.to_json()["webhook"].is_null());
  EXPECT_EQ(server.bodies().size(), 1u);
}

}  // namespace
}  // namespace sluice::watch
