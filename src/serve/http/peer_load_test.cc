#include "serve/http/peer_load.h"

#include <gtest/gtest.h>

namespace sluice::serve::http {
namespace {

TEST(PeerLoad, APeerIsKnownWhileItIsReferenced) {
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

TEST(PeerLoad, APeerGetsAtMostHalfOfTheMemory) {
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
