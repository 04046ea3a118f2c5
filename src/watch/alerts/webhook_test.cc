#include "watch/alerts/webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "watch/alerts/web_server_for_tests.h"
#include "watch/history/history_for_tests.h"

namespace sluice::watch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WebhookOptions quick(const WebServer& server, const std::string& scheme = "http") {
  WebhookOptions options;
  options.url = scheme + "://127.0.0.1:" + std::to_string(server.port()) + "/hook?token=s3cret";
  options.first_backoff_s = 0.01;
  options.timeout_s = 5;
  return options;
}

TEST(Webhook, PostsTheDocumentToThePathWithItsType) {
  WebServer server({200});
  Webhook hook(quick(server));
  hook.post(R"({"a":1})");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_THAT(server.bodies(), ElementsAre(R"({"a":1})"));
  const auto header = server.headers().at(0);
  EXPECT_THAT(header, HasSubstr("POST /hook?token=s3cret HTTP/1.1"));
  EXPECT_THAT(header, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(header, HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port())));
  EXPECT_EQ(hook.stats().sent, 1u);
}

TEST(Webhook, TriesAgainUntilItIsTakenAndKeepsTheOrder) {
  WebServer server({503, 0, 429, 200});
  Webhook hook(quick(server));
  hook.post("1");
  hook.post("2");
  ASSERT_TRUE(hook.wait_idle(10));
  EXPECT_THAT(server.bodies(), ElementsAre("1", "1", "1", "1", "2"));
  EXPECT_EQ(hook.stats().sent, 2u);
  EXPECT_EQ(hook.stats().retries, 3u);
  EXPECT_EQ(hook.stats().failed, 0u);
  EXPECT_EQ(hook.stats().last_error, "");
}

TEST(Webhook, GivesUpAfterItsAttemptsAndGoesOnWithTheNext) {
  WebServer server({500, 500, 500, 200});
  auto options = quick(server);
  options.attempts = 3;
  Webhook hook(options);
  hook.post("1");
  hook.post("2");
  ASSERT_TRUE(hook.wait_idle(10));
  EXPECT_THAT(server.bodies(), ElementsAre("1", "1", "1", "2"));
  EXPECT_EQ(hook.stats().failed, 1u);
  EXPECT_EQ(hook.stats().sent, 1u);
}

TEST(Webhook, ARefusalIsFinal) {
  WebServer server({404});
  Webhook hook(quick(server));
  hook.post("1");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_EQ(server.bodies().size(), 1u);
  EXPECT_EQ(hook.stats().failed, 1u);
  EXPECT_EQ(hook.stats().last_error, "answered 404");
}

TEST(Webhook, AServerThatNeverAnswersCostsTheTimeoutOnly) {
  WebServer server({-1});
  auto options = quick(server);
  options.timeout_s = 0.1;
  options.attempts = 1;
  Webhook hook(options);
  hook.post("1");
  ASSERT_TRUE(hook.wait_idle(3));
  EXPECT_THAT(hook.stats().last_error, HasSubstr("answer: "));
}

TEST(Webhook, ARefusedConnectionGivesAReason) {
  std::string url;
  {
    WebServer server({200});
    url = quick(server).url;
  }
  WebhookOptions options;
  options.url = url, options.attempts = 1;
  Webhook hook(options);
  hook.post("1");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_THAT(hook.stats().last_error, HasSubstr("connect: "));
}

TEST(Webhook, DropsTheOldestWhenTheQueueIsFullAndCounts) {
  WebServer server({-1});
  auto options = quick(server);
  options.queue = 3;
  const Instant start = Steady::now();
  {
    Webhook hook(options);
    for (int i = 0; i < 100; ++i) hook.post(std::to_string(i));
    const auto stats = hook.stats();
    EXPECT_GE(stats.dropped, 96u);
    EXPECT_LE(stats.waiting, 4u);
    EXPECT_LT(seconds_between(start, Steady::now()), 0.5);
  }
  EXPECT_LT(seconds_between(start, Steady::now()), 3) << "stopping waits for nobody";
}

TEST(Webhook, QueuedEventsAreSentOnShutdown) {
  WebServer server({200});
  {
    Webhook hook(quick(server));
    hook.post("1");
    hook.post("2");
  }
  EXPECT_THAT(server.bodies(), ElementsAre("1", "2"));
}

TEST(Webhook, AnAddressItCannotUseIsRefused) {
  WebhookOptions options;
  options.url = "ftp://example.com/";
  EXPECT_THROW(Webhook{options}, Error);
}

// ---- TLS

TEST(Webhook, HttpsWithAnUnknownIssuerIsNotTrusted) {
  const Folder folder;
  WebServer server({200}, "IP:127.0.0.1", folder / "cert.pem");
  auto options = quick(server, "https");
  options.attempts = 1;
  Webhook hook(options);
  hook.post("secret");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_THAT(hook.stats().last_error, HasSubstr("TLS: "));
  EXPECT_TRUE(server.bodies().empty());
}

TEST(Webhook, HttpsWithACertificateForAnotherNameIsNotTrusted) {
  const Folder folder;
  WebServer server({200}, "DNS:example.com", folder / "cert.pem");
  auto options = quick(server, "https");
  options.attempts = 1;
  options.ca_file = folder / "cert.pem";
  Webhook hook(options);
  hook.post("secret");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_THAT(hook.stats().last_error, HasSubstr("TLS: "));
  EXPECT_TRUE(server.bodies().empty());
}

TEST(Webhook, HttpsWithATrustedCertificateDelivers) {
  const Folder folder;
  WebServer server({503, 200}, "IP:127.0.0.1", folder / "cert.pem");
  auto options = quick(server, "https");
  options.ca_file = folder / "cert.pem";
  Webhook hook(options);
  hook.post("secret");
  ASSERT_TRUE(hook.wait_idle(5));
  EXPECT_EQ(hook.stats().last_error, "");
  EXPECT_THAT(server.bodies(), ElementsAre("secret", "secret"));
}

}  // namespace
}  // namespace sluice::watch
