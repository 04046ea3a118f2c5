#include "serve/fair_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>

namespace sluice::serve {
namespace {

struct FairPoolTest : testing::Test {
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

TEST_F(FairPoolTest, ClientsAreServedRoundRobin) {
  FairPool pool({.threads = 1});
  pool.post("greedy", gate());
  begun.wait();
  for (int i = 0; i < 4; ++i) pool.post("greedy", note('g'));
  for (int i = 0; i < 2; ++i) pool.post("modest", note('m'));
  open.count_down();
  pool.join();
  EXPECT_EQ(done, "gmgmgg");
}

TEST_F(FairPoolTest, AFullClientIsRefusedAndAnotherIsAccepted) {
  FairPool pool({.threads = 1, .max_queued = 3, .max_queued_per_client = 2});
  pool.post("greedy", gate());
  begun.wait();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(pool.has_capacity("greedy"));
    pool.post("greedy", note('g'));
  }
  EXPECT_FALSE(pool.has_capacity("greedy"));
  EXPECT_TRUE(pool.has_capacity("modest"));
  pool.post("modest", note('m'));
  EXPECT_FALSE(pool.has_capacity("modest"));  // the queue is full
  open.count_down();
  pool.join();
  EXPECT_EQ(done, "gmg");
}

TEST_F(FairPoolTest, TheLastQuarterOfTheQueueIsReservedForSmallClients) {
  FairPool pool({.threads = 1, .max_queued = 64, .max_queued_per_client = 16});
  pool.post("first", gate());
  begun.wait();
  for (const char* greedy : {"a", "b", "c", "d"})
    while (pool.has_capacity(greedy)) pool.post(greedy, note('.'));
  EXPECT_TRUE(pool.has_capacity("modest"));
  EXPECT_FALSE(pool.has_capacity("a"));
  open.count_down();
  pool.join();
  EXPECT_EQ(done.size(), 49u);  // 48, and one of the fourth
}

TEST_F(FairPoolTest, ConcurrentTasksOfAClientAreLimited) {
  std::latch both_run(2), other_ran(1);
  std::atomic<int> running{0}, peak{0};
  FairPool pool({.threads = 3, .max_running_per_client = 2});
  for (int i = 0; i < 8; ++i)
    pool.post("greedy", FairPool::Work([&, i] {
                const int now = ++running;
                for (int seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {
                }
                if (i < 2) both_run.count_down();
                open.wait();
                --running;
              }));
  both_run.wait();
  pool.post("other", FairPool::Work([&] { other_ran.count_down(); }));
  other_ran.wait();  // on the third thread, which the first client may not have
  open.count_down();
  pool.join();
  EXPECT_EQ(peak, 2);
  EXPECT_EQ(running, 0);
}

TEST_F(FairPoolTest, AnEndingServerDropsWhatIsQueued) {
  FairPool pool({.threads = 1});
  pool.post("one", gate());
  begun.wait();
  for (int i = 0; i < 5; ++i) pool.post(i < 3 ? "one" : "two", note('1'));
  pool.drop_queued();
  EXPECT_TRUE(pool.has_capacity("one"));
  open.count_down();
  pool.join();
  EXPECT_EQ(done, "");
}

TEST_F(FairPoolTest, JoinRunsQueuedTasksAndDropsLaterOnes) {
  FairPool pool({.threads = 2, .max_running_per_client = 1});
  pool.post("one", gate());
  begun.wait();
  for (int i = 0; i < 5; ++i) pool.post("one", note('1'));
  open.count_down();
  pool.join();
  pool.post("one", note('2'));
  EXPECT_EQ(done, "11111");
}

}  // namespace
}  // namespace sluice::serve
