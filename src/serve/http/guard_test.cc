#include "serve/http/guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace sluice::serve::http {
namespace {

struct Guard : testing::Test {
  GuardConfig config;
  Request request;
  Guard() {
    request.method = Method::get;
    request.host = "127.0.0.1:8000";
  }
  int status(bool open = false) {
    recognize(request, config);
    const auto refused = refuse(request, open, config);
    return refused ? refused->status : 200;
  }
};

TEST_F(Guard, WithoutAKeyALocalRequestPasses) { EXPECT_EQ(status(), 200); }

TEST_F(Guard, WithAKeyEveryClosedRouteNeedsIt) {
  config.api_key = Secret("correct horse");
  EXPECT_EQ(status(), 401);
  EXPECT_EQ(status(true), 200);
}

TEST_F(Guard, TheKeyIsTakenFromAnyOfThreeHeaders) {
  config.api_key = Secret("correct horse");
  request.authorization = "Bearer correct horse";
  EXPECT_EQ(status(), 200);
  request.authorization = "bearer  correct horse";
  EXPECT_EQ(status(), 200);
  request.authorization = "Basic YW55Ym9keTpjb3JyZWN0IGhvcnNl";  // anybody:correct horse
  EXPECT_EQ(status(), 200);
  request.authorization.clear();
  request.api_key = "correct horse";
  EXPECT_EQ(status(), 200);
}

TEST_F(Guard, AWrongKeyIsRefused) {
  config.api_key = Secret("correct horse");
  for (const auto* wrong :
       {"Bearer", "Bearer ", "Bearer correct", "Bearer correct horsf",
        "Bearer correct horse battery", "Basic !!!", "Basic YTpi", "Digest x"}) {
    request.authorization = wrong;
    EXPECT_EQ(status(), 401) << wrong;
  }
}

TEST_F(Guard, AnEmptyKeyInTheRequestIsNoKey) {
  config.api_key = Secret("k");
  request.api_key = "";
  EXPECT_EQ(status(), 401);
}

TEST_F(Guard, TheAdminKeyAlsoCountsAsTheApiKey) {
  config.api_key = Secret("correct horse");
  config.admin_key = Secret("battery staple");
  request.api_key = "battery staple";
  EXPECT_EQ(status(), 200);
  EXPECT_TRUE(request.peer.is_admin);
  EXPECT_EQ(request.peer.name(), "key:admin");
  request.api_key = "correct horse";
  EXPECT_EQ(status(), 200);
  EXPECT_FALSE(request.peer.is_admin);
  EXPECT_EQ(request.peer.name(), "key:api");
  request.api_key.clear();
  EXPECT_EQ(status(), 401);
  EXPECT_FALSE(request.peer.is_admin);
}

TEST_F(Guard, AWrongKeyIsRefusedWhereOnlyAdminsNeedOne) {
  config.admin_key = Secret("battery staple");
  EXPECT_EQ(status(), 200);
  request.api_key = "battery stable";
  EXPECT_EQ(status(), 401);
  EXPECT_EQ(status(true), 200);
}

TEST_F(Guard, OverTheUnixSocketTheServersUserAndRootAreAdmins) {
  request.over_socket = true;
  request.peer.uid = static_cast<std::int64_t>(::geteuid());
  recognize(request, config);
  EXPECT_TRUE(request.peer.is_admin);
  request.peer.uid = 0;
  recognize(request, config);
  EXPECT_TRUE(request.peer.is_admin);
  for (const std::int64_t other : {std::int64_t{-1}, std::int64_t{::geteuid()} + 4711}) {
    request.peer.uid = other;
    recognize(request, config);
    EXPECT_FALSE(request.peer.is_admin) << other;
  }
}

TEST_F(Guard, OverTheUnixSocketOtherUsersAreKnownByTheirCredentialsAndMayShowTheAdminKey) {
  config.admin_key = Secret("battery staple");
  request.over_socket = true;
  request.peer.uid = std::int64_t{::geteuid()} + 4711;
  EXPECT_EQ(status(), 200);
  EXPECT_FALSE(request.peer.is_admin);
  request.api_key = "battery staple";
  EXPECT_EQ(status(), 200);
  EXPECT_TRUE(request.peer.is_admin);
  EXPECT_EQ(request.peer.name(), "uid:" + std::to_string(request.peer.uid));
}

TEST_F(Guard, OverTcpNoUserIsAnAdmin) {
  request.peer.uid = 0;
  recognize(request, config);
  EXPECT_FALSE(request.peer.is_admin);
}

TEST_F(Guard, AForeignHostNameIsRefusedWithoutAKey) {
  request.host = "evil.example:8000";
  EXPECT_EQ(status(), 421);
  config.allowed_hosts = {"evil.example"};
  EXPECT_EQ(status(), 200);
}

TEST_F(Guard, ANameAllowedWithAPortMatchesThatPortOnly) {
  EXPECT_TRUE(is_own_name("GPU.lan:8443", {"gpu.lan:8443"}));
  EXPECT_TRUE(is_own_name("gpu.lan", {"gpu.lan:80"}));
  EXPECT_FALSE(is_own_name("gpu.lan:8000", {"gpu.lan:8443"}));
  EXPECT_FALSE(is_own_name("gpu.lan", {"gpu.lan:8443"}));
  EXPECT_TRUE(is_own_name("gpu.lan:8000", {"gpu.lan"}));
}

TEST_F(Guard, AHostWithAnInvalidPortIsRefused) {
  for (const auto* bad : {"localhost:", "localhost:80"}) EXPECT_TRUE(is_own_name(bad, {})) << bad;
  for (const auto* bad : {"localhost:x", "localhost:0", "127.0.0.1:65536", "localhost:80:80",
                          "[::1]80", "localhost:80@evil.example", "localhost:-1"})
    EXPECT_FALSE(is_own_name(bad, {})) << bad;
}

TEST_F(Guard, AddressesAndLocalhostAreAlwaysOwnNames) {
  for (const auto* own : {"localhost", "LOCALHOST:8000", "10.1.2.3:80", "[::1]:8000", "[fe80::1]"})
    EXPECT_TRUE(is_own_name(own, {})) << own;
  for (const auto* other : {"localhost.evil.example", "127.0.0.1.evil.example", "", "[", "a:b:c"})
    EXPECT_FALSE(is_own_name(other, {})) << other;
}

TEST_F(Guard, APageOfAnotherOriginMayNotChangeAnything) {
  request.method = Method::post;
  for (const auto* origin : {"http://evil.example", "null", "http://127.0.0.1:9999", "http://"}) {
    request.origin = origin;
    EXPECT_EQ(status(), 403) << origin;
  }
  request.origin = "http://127.0.0.1:8000";
  EXPECT_EQ(status(), 200);
}

TEST_F(Guard, ABodyMustBeDeclaredAsJson) {
  request.method = Method::post;
  request.has_body = true;
  for (const auto* type :
       {"", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"}) {
    request.content_type = type;
    EXPECT_EQ(status(), 415) << type;
  }
  request.content_type = "Application/JSON ; charset=utf-8";
  EXPECT_EQ(status(), 200);
}

TEST_F(Guard, OverTheUnixSocketOnlyTheServersUserAndRootNeedNoKey) {
  config.api_key = Secret("k");
  request.over_socket = true;
  request.host = "anything";
  request.peer.uid = static_cast<std::int64_t>(::geteuid());
  EXPECT_EQ(status(), 200);
  for (const std::int64_t other : {std::int64_t{-1}, std::int64_t{::geteuid()} + 4711}) {
    request.peer.uid = other;
    EXPECT_EQ(status(), 401) << other;
    EXPECT_EQ(status(true), 200) << other;
  }
  request.api_key = "k";
  EXPECT_EQ(status(), 200);
  EXPECT_FALSE(request.peer.is_admin);
}

}  // namespace
}  // namespace sluice::serve::http
