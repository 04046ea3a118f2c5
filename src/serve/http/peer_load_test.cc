#include "serve/http/peer_load.h"

#include <gtest/gtest.h>

namespace sluice::serve::http {
namespace {

Peer peer_at(std::string address, std::int64_t uid = -1) {
  Peer peer;
  peer.address = std::move(address);
  peer.uid = uid;
  return peer;
}

TEST(PeerLoad, CountsAUserAnAddressOrANetwork) {
  EXPECT_EQ(load_name(peer_at("127.0.0.1", 1000)), "uid:1000");
  EXPECT_EQ(load_name(peer_at("10.0.0.9")), "10.0.0.9");
  EXPECT_EQ(load_name(peer_at("2001:db8::1")), load_name(peer_at("2001:db8::ffff:2")));
  EXPECT_NE(load_name(peer_at("2001:db8::1")), load_name(peer_at("2001:db8:0:1::1")));
}

TEST(PeerLoad, KnowsOneAsLongAsItIsThere) {
  MemoryBudget memory(100);
  PeerLoad load(memory);
  auto one = load.find("a");
  one->connections = 3;
  EXPECT_EQ(load.find("a"), one);
  EXPECT_NE(load.find("b"), one);
  one.reset();
  EXPECT_EQ(load.find("a")->connections, 0);
  for (int i = 0; i < 1000; ++i) load.find(std::to_string(i));  // forgotten as they go
}

TEST(PeerLoad, LeavesHalfOfTheMemoryToOthers) {
  MemoryBudget memory(100);
  PeerLoad load(memory);
  const auto a = load.find("a"), b = load.find("b");
  MemoryBudget::Charge of_a(a->memory), of_b(b->memory);
  EXPECT_FALSE(of_a.resize(51));
  EXPECT_TRUE(of_a.resize(50));
  EXPECT_TRUE(of_b.resize(50));
  EXPECT_EQ(memory.used(), 100u);
}

}  // namespace
}  // namespace sluice::serve::http
