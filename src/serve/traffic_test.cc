#include "serve/traffic.h"

#include <gtest/gtest.h>

namespace sluice::serve {
namespace {

TEST(Traffic, CountsByRouteAndStatusOverAllThreads) {
  Traffic traffic(2, {"/a", "/b"});
  traffic.lane(0).request(0, 200, 0.001);
  traffic.lane(1).request(0, 200, 0.001);
  traffic.lane(1).request(traffic.unmatched(), 404, 0.001);
  traffic.lane(1).request(1, 999, 0.001);
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
  traffic.lane(0).streams(1);
  traffic.lane(0).streams(1);
  traffic.lane(0).streams(-1);
  EXPECT_EQ(traffic.totals().streams, 1);
}

TEST(Latency, QuantilesAreWithinABucketOfTheTruth) {
  Traffic traffic(1, {"/a"});
  for (int i = 1; i <= 1000; ++i) traffic.lane(0).request(0, 200, i * 1e-5);  // 10 us to 10 ms
  const auto latency = traffic.totals().latency;
  EXPECT_NEAR(*latency_quantile(latency, 0.5), 5e-3, 0.5e-3);
  EXPECT_NEAR(*latency_quantile(latency, 0.99), 9.9e-3, 1e-3);
}

TEST(Latency, NothingMeasuredHasNoQuantile) { EXPECT_FALSE(latency_quantile({}, 0.5)); }

TEST(Latency, ExtremesFallIntoTheOuterBuckets) {
  Traffic traffic(1, {"/a"});
  traffic.lane(0).request(0, 200, 0);
  traffic.lane(0).request(0, 200, 3600);
  const auto latency = traffic.totals().latency;
  EXPECT_EQ(latency.front(), 1u);
  EXPECT_EQ(latency.back(), 1u);
}

TEST(Rates, AreOfTheIntervalAlone) {
  Traffic traffic(1, {"/a"});
  traffic.lane(0).request(0, 200, 5);
  const auto before = traffic.totals();
  for (int i = 0; i < 9; ++i) traffic.lane(0).request(0, 200, 0.001);
  traffic.lane(0).request(0, 500, 0.001);
  const auto rates = rates_between(before, traffic.totals(), 2);
  EXPECT_DOUBLE_EQ(rates.rate, 5);
  EXPECT_DOUBLE_EQ(rates.error_percent, 10);
  EXPECT_LT(*rates.p99_ms, 2);
}

TEST(Rates, AQuietIntervalHasNoLatency) {
  Traffic traffic(1, {});
  const auto rates = rates_between(traffic.totals(), traffic.totals(), 1);
  EXPECT_EQ(rates.rate, 0);
  EXPECT_FALSE(rates.p50_ms);
}

}  // namespace
}  // namespace sluice::serve
