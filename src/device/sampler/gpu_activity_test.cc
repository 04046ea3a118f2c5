#include "device/sampler/gpu_activity.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace sluice::device {
namespace {

constexpr Seconds kPatience(0.05), kNone(0);

TEST(GpuActivity, AMeasurementOnAnIdleDeviceIsAlone) {
  GpuActivity activity;
  int calls = 0;
  EXPECT_TRUE(activity.alone([&] { ++calls; }, kPatience));
  EXPECT_EQ(calls, 1);
}

TEST(GpuActivity, AMeasurementBesideACallIsNotAlone) {
  GpuActivity activity;
  const GpuActivity::Working call(activity);
  int calls = 0;
  EXPECT_FALSE(activity.alone([&] { ++calls; }, kNone));
  EXPECT_EQ(calls, 1);
}

TEST(GpuActivity, ACallThatBeginsAndEndsMeanwhileIsSeen) {
  GpuActivity activity;
  EXPECT_FALSE(activity.alone([&] { const GpuActivity::Working call(activity); }, kNone));
}

TEST(GpuActivity, ACallThatHasNotEndedIsSeen) {
  GpuActivity activity;
  std::optional<GpuActivity::Working> call;
  EXPECT_FALSE(activity.alone([&] { call.emplace(activity); }, kNone));
}

TEST(GpuActivity, TheMeasurementRepeatsOnceTheDeviceIsIdle) {
  GpuActivity activity;
  int calls = 0;
  EXPECT_TRUE(activity.alone(
      [&] {
        if (++calls == 1) const GpuActivity::Working call(activity);
      },
      kPatience));
  EXPECT_EQ(calls, 2);
}

TEST(GpuActivity, ItWaitsForTheEndOfACallNoLongerThanItsTimeout) {
  GpuActivity activity;
  std::optional<GpuActivity::Working> call(std::in_place, activity);
  const Instant start = Steady::now();
  EXPECT_FALSE(activity.alone([] {}, kPatience));
  EXPECT_GT(seconds_between(start, Steady::now()), 3 * kPatience.count() - 0.01);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    call.reset();
  });
  EXPECT_TRUE(activity.alone([] {}, Seconds(20)));
  other.join();
}

TEST(GpuActivity, OnlyOneMeasurementRunsAtATime) {
  GpuActivity activity;
  std::atomic<int> measuring = 0, max_measuring = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        EXPECT_TRUE(activity.alone(
            [&] {
              max_measuring = std::max(max_measuring.load(), ++measuring);
              --measuring;
            },
            kNone));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(max_measuring, 1);
}

TEST(GpuActivity, EachDeviceIsCountedSeparately) {
  const GpuActivity::Working call(GpuActivity::of(900));
  EXPECT_EQ(&GpuActivity::of(900), &GpuActivity::of(900));
  EXPECT_TRUE(GpuActivity::of(901).alone([] {}, kNone));
}

}  // namespace
}  // namespace sluice::device
