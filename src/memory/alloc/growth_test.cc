#include "memory/alloc/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace sluice::memory {
namespace {

GrowthWindow watched(const std::function<double(double)>& level, double until_s) {
  GrowthWindow window(600);
  for (double t = 0; t <= until_s; t += 5) window.add(t, level(t));
  return window;
}

TEST(Growth, ASteadyRiseIsGrowthAtItsSlope) {
  const auto window = watched([](double t) { return 1000 + 3 * t; }, 600);
  EXPECT_NEAR(window.growth_per_s(false).value(), 3, 1e-6);
}

TEST(Growth, HalfTheWindowMustBeKnownFirst) {
  const auto rise = [](double t) { return 3 * t; };
  EXPECT_FALSE(watched(rise, 295).growth_per_s(false));
  EXPECT_TRUE(watched(rise, 305).growth_per_s(false));
}

TEST(Growth, AStaircaseIsGrowth) {
  const auto window = watched([](double t) { return static_cast<int>(t / 120) * 1e9; }, 900);
  EXPECT_NEAR(window.growth_per_s(false).value(), 1e9 / 120, 2e6);
}

TEST(Growth, AJumpALevelAndAnEndedLoadAreNotGrowth) {
  for (const double jump : {100.0, 300.0, 500.0})
    EXPECT_EQ(watched([&](double t) { return t < jump ? 1e9 : 9e9; }, 600).growth_per_s(false),
              0.0);
  EXPECT_EQ(watched([](double) { return 1e9; }, 600).growth_per_s(false), 0.0);
  // A straight line explains this well, and yet it is over.
  for (const double loaded : {150.0, 250.0, 300.0})
    EXPECT_EQ(watched([&](double t) { return std::min(t, loaded); }, 400).growth_per_s(false), 0.0);
}

TEST(Growth, GrowthInLargeStepsIsDetectedInTheNewerHalf) {
  const auto window = watched([](double t) { return static_cast<int>(t / 240) * 1e9; }, 910);
  EXPECT_EQ(window.growth_per_s(false), 0.0);  // no step in the newest quarter
  EXPECT_GT(window.growth_per_s(true).value(), 1e6);
}

TEST(Growth, AFallHasItsOwnSlope) {
  EXPECT_NEAR(watched([](double t) { return 1e6 - 2 * t; }, 600).growth_per_s(false).value(), -2,
              1e-6);
}

TEST(Growth, GrowthBeginsWhereTheLevelWasLeft) {
  EXPECT_EQ(watched([](double t) { return 3 * t; }, 600).since(), 0);
  EXPECT_EQ(watched([](double t) { return std::max(0.0, t - 100); }, 600).since(), 100);
}

}  // namespace
}  // namespace sluice::memory
