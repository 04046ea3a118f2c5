#include "serve/http/fair_pool.h"

#include <gtest/gtest.h>

#include <latch>
#include <string>

namespace sluice::serve::http {
namespace {

struct Turns : testing::Test {
  const int greedy = 0, modest = 0;  // their addresses tell them apart
  std::latch begun{1}, open{1};
  std::string done;
  // Holds the only thread until open.
  FairPool::Work gate() {
    return FairPool::Work([this] {
      begun.count_down();
      open.wait();
    });
  }
  FairPool::Work note(char c) {
    return FairPool::Work([this, c] { done += c; });
  }
};

TEST_F(Turns, ArePeersInTurnAndNotFirstComeFirstServed) {
  FairPool pool({.threads = 1});
  pool.post(&greedy, gate());
  begun.wait();
  for (int i = 0; i < 4; ++i) pool.post(&greedy, note('g'));
  for (int i = 0; i < 2; ++i) pool.post(&modest, note('m'));
  open.count_down();
  pool.join();
  EXPECT_EQ(done, "gmgmgg");
}

TEST_F(Turns, EndForOneWithTooManyAndNotForAnother) {
  FairPool pool({.threads = 1, .most_waiting = 3, .most_of_one = 2});
  pool.post(&greedy, gate());
  begun.wait();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pool.has_room(&greedy));
    pool.post(&greedy, note('g'));
  }
  EXPECT_FALSE(pool.has_room(&greedy));
  EXPECT_TRUE(pool.has_room(&modest));
  pool.post(&modest, note('m'));
  EXPECT_FALSE(pool.has_room(&modest));  // all places are taken
  open.count_down();
  pool.join();
  EXPECT_EQ(done, "gmg");
}

}  // namespace
}  // namespace sluice::serve::http
