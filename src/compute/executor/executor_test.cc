#include "compute/executor/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>
#include <vector>

#include "base/cancellation.h"

namespace sluice::compute {
namespace {

using namespace std::chrono_literals;

std::string said(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return std::string(e.reason());
  }
}

void spin_until_cancelled() {
  while (true) {
    throw_if_cancelled();
    std::this_thread::sleep_for(1ms);
  }
}

// A call whose end can be waited for.
class Ending {
 public:
  Executor::Call call(std::function<void()> run, Instant deadline = Instant::max()) {
    return {.run = std::move(run),
            .done = [this](const std::exception_ptr& error) { end_.set_value(said(error)); },
            .deadline = deadline};
  }
  std::string wait() {
    auto future = end_.get_future();
    return future.wait_for(20s) == std::future_status::ready ? future.get() : "no end";
  }

 private:
  std::promise<std::string> end_;
};

TEST(ExecutorTest, CallsRunInOrderAndEndOnce) {
  std::vector<int> order;
  std::atomic<int> ends = 0;
  {
    Executor executor;
    std::latch all(100);
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(executor.submit({.run = [&order, i] { order.push_back(i); },
                                   .done =
                                       [&](const std::exception_ptr& error) {
                                         EXPECT_FALSE(error);
                                         ++ends;
                                         all.count_down();
                                       }}));
    all.wait();
    EXPECT_EQ(executor.counts().done, 100u);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(ends, 100);
}

TEST(ExecutorTest, WhatACallThrowsIsPassedOn) {
  Executor executor;
  Ending call;
  executor.submit(call.call([] { throw Error(Code::internal, "it broke"); }));
  EXPECT_EQ(call.wait(), "it broke");
}

TEST(ExecutorTest, AFullQueueRefusesAtOnce) {
  Executor executor({.max_waiting = 2});
  std::promise<void> gate;
  std::shared_future<void> open(gate.get_future());
  Ending running, first, second, third;
  std::latch started(1);
  executor.submit(running.call([&] {
    started.count_down();
    open.wait();
  }));
  started.wait();
  EXPECT_TRUE(executor.submit(first.call([] {})));
  EXPECT_TRUE(executor.submit(second.call([] {})));
  EXPECT_FALSE(executor.submit(third.call([] {})));
  EXPECT_EQ(executor.counts().refused, 1u);
  EXPECT_EQ(executor.counts().waiting, 2u);
  gate.set_value();
  EXPECT_EQ(second.wait(), "");
}

TEST(ExecutorTest, ADeadlineEndsWaitingAndRunningCalls) {
  Executor executor;
  Ending busy, waiting, running;
  const auto ticket = executor.submit(busy.call(spin_until_cancelled));
  executor.submit(waiting.call([] { ADD_FAILURE() << "it ran"; }, Steady::now() + 20ms));
  EXPECT_EQ(waiting.wait(), "the deadline passed");
  EXPECT_EQ(executor.counts().running, 1u) << "it waited for the running call";
  ticket->cancel();
  EXPECT_EQ(busy.wait(), "the calculation was cancelled");
  executor.submit(running.call(spin_until_cancelled, Steady::now() + 20ms));
  EXPECT_EQ(running.wait(), "the deadline passed");
  EXPECT_EQ(executor.counts().expired, 2u);
}

TEST(ExecutorTest, AnEarlierDeadlineThanTheFirstIsKept) {
  Executor executor;
  Ending running, late, early;
  const Instant start = Steady::now();
  const auto ticket = executor.submit(running.call(spin_until_cancelled));
  executor.submit(late.call([] {}, start + 10s));
  executor.submit(early.call([] {}, start + 20ms));
  EXPECT_EQ(early.wait(), "the deadline passed");
  ticket->cancel();
  EXPECT_EQ(late.wait(), "");
}

TEST(ExecutorTest, CancelEndsWaitingAndRunningCalls) {
  Executor executor;
  Ending running, waiting, after;
  const auto first = executor.submit(running.call(spin_until_cancelled));
  const auto second = executor.submit(waiting.call([] { ADD_FAILURE() << "it ran"; }));
  second->cancel();
  EXPECT_EQ(waiting.wait(), "the calculation was cancelled");
  first->cancel();
  first->cancel();
  EXPECT_EQ(running.wait(), "the calculation was cancelled");
  executor.submit(after.call([] {}));
  EXPECT_EQ(after.wait(), "");
  EXPECT_EQ(executor.counts().cancelled, 2u);
}

TEST(ExecutorTest, ItsEndCancelsAllCalls) {
  std::atomic<int> ends = 0;
  std::optional<Executor::Ticket> ticket;
  {
    Executor executor({.threads = 2});
    for (int i = 0; i < 10; ++i)
      ticket = executor.submit({.run = spin_until_cancelled, .done = [&](const auto& error) {
                                  EXPECT_TRUE(error);
                                  ++ends;
                                }});
  }
  EXPECT_EQ(ends, 10);
  ticket->cancel();
}

TEST(ExecutorTest, ManyThreadsSubmitCancelAndExpireAtOnce) {
  std::atomic<int> ends = 0, taken = 0;
  {
    Executor executor({.threads = 3, .max_waiting = 50});
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          const auto ticket =
              executor.submit({.run = [] { std::this_thread::sleep_for(50us); },
                               .done = [&](const auto&) { ++ends; },
                               .deadline = i % 3 == 0 ? Steady::now() + std::chrono::microseconds(i)
                                                      : Instant::max()});
          if (!ticket) continue;
          ++taken;
          if ((i + t) % 4 == 0) ticket->cancel();
        }
      });
  }
  EXPECT_EQ(ends, taken);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace sluice::compute
