#include "serve/http/io_scheduler.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <string>

namespace sluice::serve::http {
namespace {

struct IoSchedulerTest : testing::Test {
  const int greedy = 0, modest = 0;  // their addresses tell them apart
  std::string done;
  io_context io{1};
  IoScheduler turns{io};

  // A connection of `peer` that is ready `times` times.
  void ready(IoScheduler::Peer peer, char name, int times) {
    const auto serve = [](IoSchedulerTest& test, IoScheduler::Peer of, char c,
                          int left) -> Task<void> {
      for (; left > 0; --left) {
        co_await test.turns.next(of);
        test.done += c;
      }
    };
    asio::co_spawn(io, serve(*this, peer, name, times), asio::detached);
  }
};

TEST_F(IoSchedulerTest, TurnsAreScheduledByPeer) {
  for (int i = 0; i < 5; ++i) ready(&greedy, 'g', 1);
  ready(&modest, 'm', 2);
  io.run();
  EXPECT_EQ(done, "gmgmggg");
}

TEST_F(IoSchedulerTest, TurnsOfOnePeerAreInOrder) {
  ready(&greedy, 'a', 2);
  ready(&greedy, 'b', 2);
  io.run();
  EXPECT_EQ(done, "abab");
}

TEST_F(IoSchedulerTest, WaitingTurnsAreDroppedWhenTheLoopEnds) {
  auto held = std::make_shared<int>(1);
  {
    io_context loop{1};
    IoScheduler own{loop};
    const auto wait = [](IoScheduler& of, std::shared_ptr<int> kept) -> Task<void> {
      co_await of.next(&of);
      *kept = 2;
    };
    asio::co_spawn(loop, wait(own, held), asio::detached);
    loop.run_one();  // it waits now
    EXPECT_GT(held.use_count(), 1);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 1);
}

}  // namespace
}  // namespace sluice::serve::http
