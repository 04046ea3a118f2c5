#include "serve/turn_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>

#include "base/error.h"

namespace sluice::serve {
namespace {

TEST(TurnPool, AnOwnerOfManyTasksKeepsAnotherWaitingForOne) {
  std::promise<void> begin;
  auto begun = begin.get_future().share();
  std::atomic<int> done{0};
  std::promise<int> before_other;
  TurnPool pool({.threads = 1, .most_each = 1, .most_waiting = 100});
  for (int i = 0; i < 20; ++i)
    pool.post("greedy", [&done, begun] {
      begun.wait();
      ++done;
    });
  pool.post("other", [&] { before_other.set_value(done); });
  begin.set_value();
  EXPECT_LE(before_other.get_future().get(), 2);
}

TEST(TurnPool, AnOwnerRunsAtMostSoManyAtOnce) {
  std::latch greedy_runs(2), end(1);
  std::promise<void> other;
  TurnPool pool({.threads = 3, .most_each = 2, .most_waiting = 100});
  for (int i = 0; i < 8; ++i)
    pool.post("greedy", [&] {
      if (!greedy_runs.try_wait()) greedy_runs.count_down();
      end.wait();
    });
  greedy_runs.wait();
  pool.post("other", [&] { other.set_value(); });
  EXPECT_EQ(other.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  end.count_down();
}

TEST(TurnPool, TooManyAreRefusedAndOthersHaveRoomLeft) {
  std::promise<void> runs, end;
  TurnPool pool({.threads = 1, .most_each = 1, .most_waiting = 8});
  auto ended = end.get_future().share();
  pool.post("greedy", [&, ended] {
    runs.set_value();
    ended.wait();
  });
  runs.get_future().wait();
  for (int i = 0; i < 6; ++i) pool.post("greedy", [] {});
  EXPECT_THROW(pool.post("greedy", [] {}), Error);
  pool.post("other", [] {});
  pool.post("third", [] {});
  EXPECT_THROW(pool.post("fourth", [] {}), Error);
  end.set_value();
}

}  // namespace
}  // namespace sluice::serve
