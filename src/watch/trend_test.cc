#include "watch/trend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

namespace sluice::watch {
namespace {

using testing::IsEmpty;

std::vector<Point> series(int n, double step, const std::function<double(double)>& value) {
  std::vector<Point> points;
  for (int i = 0; i < n; ++i) points.push_back({i * step, value(i * step)});
  return points;
}

auto noise(double size, unsigned seed = 3) {
  return [random = std::mt19937(seed), normal = std::normal_distribution<double>(0, size)](
             double) mutable { return normal(random); };
}

TEST(Trend, ALineHasItsSlopeAndLevel) {
  const auto line = slope(series(100, 2, [](double t) { return 5 + 0.25 * t; }));
  ASSERT_TRUE(line);
  EXPECT_DOUBLE_EQ(line->per_s, 0.25);
  EXPECT_DOUBLE_EQ(line->level, 5 + 0.25 * 198);
  EXPECT_TRUE(line->significant);
}

TEST(Trend, OutliersDoNotBendTheLine) {
  auto points = series(100, 1, [](double t) { return t; });
  for (std::size_t i = 0; i < 100; i += 7) points[i].value = 1e6;
  EXPECT_NEAR(slope(points)->per_s, 1, 0.05);
}

TEST(Trend, TheTrueSlopeOfANoisyLineIsWithinTheInterval) {
  int inside = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    auto wobble = noise(5, seed);
    const auto line = slope(series(60, 1, [&](double t) { return 0.3 * t + wobble(t); }));
    inside += line->low <= 0.3 && 0.3 <= line->high;
  }
  EXPECT_GE(inside, 88);
}

TEST(Trend, NoiseAloneIsSeldomCalledATrend) {
  int called = 0;
  for (unsigned seed = 0; seed < 100; ++seed)
    called += slope(series(100, 1, noise(1, seed)))->significant;
  EXPECT_LE(called, 12);
}

TEST(Trend, TooFewPointsOrNoTimeBetweenThemGiveNothing) {
  EXPECT_FALSE(slope(series(7, 1, [](double t) { return t; })));
  EXPECT_FALSE(slope(series(20, 0, [](double t) { return t; })));
  EXPECT_FALSE(level_shift(series(15, 1, [](double t) { return t > 7 ? 9 : 1; })));
}

TEST(Trend, AJumpIsFoundWhereItHappened) {
  auto wobble = noise(1);
  const auto jump =
      level_shift(series(200, 1, [&](double t) { return (t < 120 ? 100 : 70) + wobble(t); }));
  ASSERT_TRUE(jump);
  EXPECT_NEAR(jump->at, 120, 2);
  EXPECT_NEAR(jump->percent, -30, 2);
}

TEST(Trend, ALongSeriesIsThinnedButKeepsItsJump) {
  const auto jump = level_shift(series(5000, 1, [](double t) { return t < 3000 ? 1.0 : 2.0; }));
  ASSERT_TRUE(jump);
  EXPECT_NEAR(jump->at, 3000, 25);
}

TEST(Trend, ALineANoiseAndACurveAreNoJumps) {
  auto wobble = noise(1);
  EXPECT_FALSE(level_shift(series(200, 1, [](double t) { return t; })));
  EXPECT_FALSE(level_shift(series(200, 1, wobble)));
  EXPECT_FALSE(level_shift(series(200, 1, [](double) { return 5; })));
  EXPECT_FALSE(level_shift(series(200, 1, [](double t) { return std::sin(t / 10); })));
}

TEST(Trend, GrowingMemorySaysWhenItIsFull) {
  const double gib = 1024.0 * 1024 * 1024;
  const auto points = series(360, 10, [&](double t) { return (10 + 1.2 * t / 3600) * gib; });
  const auto trends = trends_of("memory_used", "bytes", points, 14.8 * gib);
  ASSERT_EQ(trends.size(), 1u);
  EXPECT_EQ(trends[0].kind, "growing");
  EXPECT_NEAR(trends[0].per_hour, 1.2 * gib, 1e6);
  EXPECT_NEAR(*trends[0].limit_in_s, 3 * 3600, 60);
  EXPECT_EQ(trends[0].text, "memory_used grows 1.2 GiB/h: full at 14.8 GiB in 3 h 0 min");
  const auto json = to_json(trends[0]);
  EXPECT_EQ(json["kind"], "growing");
  EXPECT_TRUE(json.contains("limit_in_s"));
}

TEST(Trend, AnythingShorterThanFiveMinutesIsNoSlope) {
  const auto rising = [](double t) { return 100 + t; };
  EXPECT_THAT(trends_of("power", "watts", series(29, 10, rising), {}), IsEmpty());
  EXPECT_EQ(trends_of("power", "watts", series(32, 10, rising), {}).size(), 1u);
}

TEST(Trend, ADropIsReportedAsADropNotAsASlope) {
  const auto points = series(360, 10, [](double t) { return t < 1800 ? 98.0 : 60.0; });
  const auto trends = trends_of("clock_ratio", "percent", points, {});
  ASSERT_EQ(trends.size(), 1u);
  EXPECT_EQ(trends[0].kind, "dropped");
  EXPECT_EQ(trends[0].text, "clock_ratio dropped from 98 % to 60 % 29 min 50 s ago");
}

TEST(Trend, SmallMovementsGiveNoSentence) {
  EXPECT_THAT(
      trends_of("power", "watts", series(360, 10, [](double t) { return 100 + t / 3600; }), {}),
      IsEmpty());
  EXPECT_THAT(trends_of("power", "watts", {}, {}), IsEmpty());
  EXPECT_THAT(trends_of("power", "watts", series(360, 10, [](double) { return 0; }), {}),
              IsEmpty());
}

TEST(Baseline, NeedsFiveMinutesAndLeavesOutTheLastOne) {
  Baseline b;
  for (int t = 0; t < 240; ++t) b.add(t, 100);
  EXPECT_FALSE(b.reference(240));
  for (int t = 240; t < 360; ++t) b.add(t, 100);
  for (int t = 360; t < 419; ++t) b.add(t, 1);
  EXPECT_EQ(b.reference(419), 100);
}

TEST(Baseline, ForgetsWhatIsOlderThanAnHour) {
  Baseline b;
  for (int t = 0; t < 1000; ++t) b.add(t, 5);
  for (int t = 1000; t < 5000; ++t) b.add(t, 7);
  EXPECT_EQ(b.reference(5000), 7);
  EXPECT_FALSE(b.reference(20000));
}

}  // namespace
}  // namespace sluice::watch
