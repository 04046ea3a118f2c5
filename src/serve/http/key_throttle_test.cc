#include "serve/http/key_throttle.h"

#include <gtest/gtest.h>

namespace sluice::serve::http {
namespace {

using namespace std::chrono_literals;

Peer from(const std::string& address, std::int64_t uid = -1) {
  Peer peer;
  peer.address = address, peer.uid = uid;
  return peer;
}

struct Throttle : testing::Test {
  KeyThrottle throttle;
  Instant now = Steady::now();
  // The number of `count` tries, one each `pause`, whose key is checked.
  int tries(const Peer& peer, int count, Steady::duration pause) {
    int looked_at = 0;
    for (int i = 0; i < count; ++i, now += pause) {
      if (!throttle.may_try(peer, now)) continue;
      ++looked_at;
      throttle.failed(peer, now);
    }
    return looked_at;
  }
};

TEST_F(Throttle, TenWrongKeysAreAllowedThenTenAMinute) {
  EXPECT_TRUE(throttle.is_quiet());
  EXPECT_EQ(tries(from("10.0.0.9"), 100000, 10us), 10);
  EXPECT_FALSE(throttle.is_quiet());
  EXPECT_NEAR(tries(from("10.0.0.9"), 600, 1s), 100, 2);
}

TEST_F(Throttle, OtherPeersAreNotDelayed) {
  tries(from("10.0.0.9"), 100, 1ms);
  tries(from("127.0.0.1", 1000), 100, 1ms);
  EXPECT_FALSE(throttle.may_try(from("10.0.0.9"), now));
  EXPECT_FALSE(throttle.may_try(from("127.0.0.1", 1000), now));
  EXPECT_TRUE(throttle.may_try(from("10.0.0.8"), now));
  EXPECT_TRUE(throttle.may_try(from("127.0.0.1", 1001), now));
}

TEST_F(Throttle, AllAddressesOfOneNetworkAreOnePeer) {
  for (int i = 0; i < 20; ++i) tries(from("2001:db8::" + std::to_string(i + 1)), 1, 1ms);
  EXPECT_FALSE(throttle.may_try(from("2001:db8::ffff"), now));
  EXPECT_TRUE(throttle.may_try(from("2001:db8:0:1::1"), now));
}

TEST_F(Throttle, ManyFailingPeersDelayNoNewPeer) {
  const auto other = [](int i) {
    return from("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  };
  for (int i = 0; i < 20000; ++i) tries(other(i), 1, 1us);
  EXPECT_TRUE(throttle.may_try(from("127.0.0.1", 1000), now));
  EXPECT_TRUE(throttle.may_try(from("10.0.0.9"), now));
  EXPECT_EQ(tries(other(19999), 100, 1us), 9);  // who failed last is still known
}

TEST_F(Throttle, LoopbackWithoutAUserIsOnePeer) {
  for (int i = 1; i < 20; ++i) tries(from("127.0.3." + std::to_string(i)), 1, 1ms);
  EXPECT_FALSE(throttle.may_try(from("127.0.0.1"), now));
  EXPECT_FALSE(throttle.may_try(from("::1"), now));
  EXPECT_TRUE(throttle.may_try(from("127.0.0.1", 1000), now));
}

TEST_F(Throttle, TheThrottleIsQuietWhenAllPeersAreForgotten) {
  tries(from("10.0.0.9"), 10, 1ms);
  EXPECT_TRUE(throttle.may_try(from("10.0.0.8"), now += 30s));
  EXPECT_FALSE(throttle.is_quiet());
  EXPECT_TRUE(throttle.may_try(from("10.0.0.8"), now += 2min));
  EXPECT_TRUE(throttle.is_quiet());
}

}  // namespace
}  // namespace sluice::serve::http
