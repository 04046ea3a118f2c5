#include "compute/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/cancellation.h"

namespace sluice::compute {
namespace {

TEST(Workers, CoverEverythingOnce) {
  Workers workers(4);
  for (const std::size_t count : {0u, 1u, 7u, 1000u, 4097u}) {
    std::vector<std::atomic<int>> seen(count);
    workers.each(count, 16, [&](std::size_t begin, std::size_t end) {
      ASSERT_LE(end - begin, 16u);
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const auto& times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(Workers, RethrowWhatABodyThrewAndKeepWorking) {
  Workers workers(3);
  EXPECT_THROW(workers.each(100, 1,
                            [](std::size_t begin, std::size_t) {
                              if (begin == 40) throw std::runtime_error("40");
                            }),
               std::runtime_error);
  std::atomic<std::size_t> done = 0;
  workers.each(100, 1, [&](std::size_t begin, std::size_t end) { done += end - begin; });
  EXPECT_EQ(done, 100u);
}

TEST(Workers, ServeSeveralCallersAndNestedCalls) {
  Workers workers(2);
  std::atomic<std::size_t> done = 0;
  const auto caller = [&] {
    for (int i = 0; i < 200; ++i)
      workers.each(8, 1, [&](std::size_t, std::size_t) {
        workers.each(4, 1, [&](std::size_t, std::size_t) { ++done; });
      });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(caller);
  for (auto& thread : callers) thread.join();
  EXPECT_EQ(done, 4u * 200 * 8 * 4);
}

TEST(Workers, ACancelledCallEndsBetweenTwoChunksOnAllThreads) {
  Workers workers(4);
  std::stop_source stop;
  const std::stop_token token = stop.get_token();
  std::atomic<std::size_t> done = 0;
  const auto work = [&] {
    workers.each(1'000'000, 1, [&](std::size_t, std::size_t) {
      if (++done == 100) stop.request_stop();
    });
  };
  {
    const CancelScope scope(token);
    EXPECT_THROW(work(), Cancelled);
    EXPECT_LT(done, 1000u);
    EXPECT_THROW(workers.each(1, 1, [&](std::size_t, std::size_t) { ++done; }), Cancelled);
  }
  workers.each(10, 1, [&](std::size_t, std::size_t) { EXPECT_FALSE(is_cancelled()); });
}

TEST(Workers, ABodyCanAskWhetherItIsCancelled) {
  Workers workers(2);
  std::stop_source stop;
  const std::stop_token token = stop.get_token();
  const CancelScope scope(token);
  EXPECT_THROW(workers.each(2, 1,
                            [&](std::size_t, std::size_t) {
                              stop.request_stop();
                              for (;;) throw_if_cancelled();
                            }),
               Cancelled);
}

TEST(Workers, APoolOfOneRunsOnTheCallingThread) {
  Workers workers(1);
  EXPECT_EQ(workers.threads(), 1);
  const auto self = std::this_thread::get_id();
  workers.each(10, 1,
               [&](std::size_t, std::size_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
}

}  // namespace
}  // namespace sluice::compute
