#include "serve/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::serve {
namespace {

TEST(Traffic, CountsByRouteAndStatusOverAllThreads) {
  Traffic traffic(2, {"/a", "/b"});
  traffic.counters(0).request(0, 200, 0.001);
  traffic.counters(1).request(0, 200, 0.001);
  traffic.counters(1).request(traffic.unmatched(), 404, 0.001);
  traffic.counters(1).request(1, 999, 0.001);
  const auto totals = traffic.totals();
  ASSERT_EQ(totals.requests.size(), 3u);
  EXPECT_EQ(totals.requests[0].route, "/a");
  EXPECT_EQ(totals.requests[0].count, 2u);
  EXPECT_EQ(totals.requests[1].status, 0);  // one we do not list
  EXPECT_EQ(totals.requests[2].route, "unmatched");
  EXPECT_EQ(totals.total, 4u);
}

TEST(Traffic, AStreamThatEndsIsTakenOffAgain) {
  Traffic traffic(1, {});
  traffic.counters(0).streams(1);
  traffic.counters(0).streams(1);
  traffic.counters(0).streams(-1);
  EXPECT_EQ(traffic.totals().streams, 1);
}

TEST(Latency, QuantilesAreWithinABucketOfTheTruth) {
  Traffic traffic(1, {"/a"});
  for (int i = 1; i <= 1000; ++i) traffic.counters(0).request(0, 200, i * 1e-5);  // 10 us to 10 ms
  const auto latency = traffic.totals().latency;
  EXPECT_NEAR(*latency_quantile(latency, 0.5), 5e-3, 0.5e-3);
  EXPECT_NEAR(*latency_quantile(latency, 0.99), 9.9e-3, 1e-3);
}

TEST(Latency, AnEmptyHistogramHasNoQuantile) { EXPECT_FALSE(latency_quantile({}, 0.5)); }

TEST(Latency, ExtremesFallIntoTheOuterBuckets) {
  Traffic traffic(1, {"/a"});
  traffic.counters(0).request(0, 200, 0);
  traffic.counters(0).request(0, 200, 3600);
  const auto latency = traffic.totals().latency;
  EXPECT_EQ(latency.front(), 1u);
  EXPECT_EQ(latency.back(), 1u);
}

TEST(Rates, RatesCoverTheIntervalOnly) {
  Traffic traffic(1, {"/a"});
  traffic.counters(0).request(0, 200, 5);
  const auto before = traffic.totals();
  for (int i = 0; i < 9; ++i) traffic.counters(0).request(0, 200, 0.001);
  traffic.counters(0).request(0, 200, 0.001);
  const auto rates = rates_between(before, traffic.totals(), 2);
  EXPECT_DOUBLE_EQ(rates.rate, 5);
  EXPECT_LT(*rates.p99_ms, 2);
}

TEST(Rates, AnIntervalWithoutRequestsHasNoLatency) {
  Traffic traffic(1, {});
  const auto rates = rates_between(traffic.totals(), traffic.totals(), 1);
  EXPECT_EQ(rates.rate, 0);
  EXPECT_FALSE(rates.p50_ms);
}

// A second per step.
struct Errors : testing::Test {
  Traffic traffic{1, {"/a"}};
  ErrorShare share;
  Instant now{std::chrono::hours(1)};

  double after_a_second() { return share.add(traffic.totals(), now += std::chrono::seconds(1)); }
};

TEST_F(Errors, SparseErrorsStayVisibleBetweenRequests) {
  double minimum = 100;
  for (int second = 0; second < 120; ++second) {
    if (second % 10 == 0) traffic.counters(0).request(0, 500, 0.001);
    minimum = std::min(minimum, after_a_second());
  }
  EXPECT_DOUBLE_EQ(minimum, 100);
}

TEST_F(Errors, TheErrorShareCoversTheLastMinute) {
  for (int i = 0; i < 9; ++i) traffic.counters(0).request(0, 200, 0.001);
  traffic.counters(0).request(0, 500, 0.001);
  EXPECT_DOUBLE_EQ(after_a_second(), 10);
  for (int second = 0; second < 30; ++second) after_a_second();
  for (int i = 0; i < 10; ++i) traffic.counters(0).request(0, 200, 0.001);
  EXPECT_DOUBLE_EQ(after_a_second(), 5);
  for (int second = 0; second < 30; ++second) after_a_second();
  EXPECT_DOUBLE_EQ(after_a_second(), 0);
}

TEST_F(Errors, LimitsAndClientErrorsAreNotCounted) {
  for (const int status : {501, 503, 505, 429, 408}) traffic.counters(0).request(0, status, 0.001);
  EXPECT_DOUBLE_EQ(after_a_second(), 0);
}

TEST_F(Errors, AMinuteWithoutRequestsHasNoErrors) {
  traffic.counters(0).request(0, 500, 0.001);
  EXPECT_DOUBLE_EQ(after_a_second(), 100);
  for (int second = 0; second < 60; ++second) after_a_second();
  EXPECT_DOUBLE_EQ(after_a_second(), 0);
}

}  // namespace
}  // namespace sluice::serve
