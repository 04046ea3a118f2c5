// Ratios of prices do not depend on their scale: tokens cost 1e-10 of a dollar.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>

#include "market/indicators/batch.h"
#include "market/indicators/indicator.h"
#include "market/indicators/market_for_tests.h"
#include "market/indicators/stream.h"

namespace sluice::market {
namespace {

constexpr const char* kScaleFree[] = {"RSI",   "ROC",     "ROCP",     "ROCR",  "ROCR100",
                                      "STOCH", "STOCHF",  "STOCHRSI", "NATR",  "ADX",
                                      "DX",    "PLUS_DI", "MINUS_DI", "WILLR", "CCI"};

// A walk whose bars are a 1,000th of the price, with a stretch of equal bars.
Market narrow_bars(double scale) {
  Market market(3, 600);
  for (std::size_t i = 0; i < market.column[3].size(); ++i) {
    const double price = 80 + market.column[3][i] / 5;
    for (int c = 0; c < 4; ++c)
      market.column[c][i] = price * (1 + (market.column[c][i] / market.column[3][i] - 1) / 40);
    if (i % 600 >= 300 && i % 600 < 340)
      for (int c = 0; c < 4; ++c) market.column[c][i] = market.column[3][i - i % 600 + 299];
  }
  for (int c = 0; c < 4; ++c)
    for (double& v : market.column[c]) v *= scale;
  return market;
}

std::vector<double> batch_values(const Indicator& one, const Market& market) {
  compute::Compute compute({.threads = 1});
  std::vector<std::vector<double>> made(one.outputs.size(),
                                        std::vector<double>(market.series * market.bars));
  run(compute, one.plan(), market.inputs(one), Arrays<double>(made.begin(), made.end()),
      market.bars);
  std::vector<double> all;
  for (const auto& output : made) all.insert(all.end(), output.begin(), output.end());
  return all;
}

std::vector<double> stream_values(const Indicator& one, const Market& market) {
  const auto in = market.inputs(one);
  std::vector<double> bar(in.size()), out(one.outputs.size()), all(out.size() * in[0].size());
  for (std::size_t s = 0; s < market.series; ++s) {
    Stream stream(one.plan());
    for (std::size_t t = s * market.bars; t < (s + 1) * market.bars; ++t) {
      for (std::size_t k = 0; k < bar.size(); ++k) bar[k] = in[k][t];
      stream.update(bar, out);
      for (std::size_t k = 0; k < out.size(); ++k) all[k * in[0].size() + t] = out[k];
    }
  }
  return all;
}

// Of values up to about 100.
double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double far = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    const double off = std::fabs(a[i] - b[i]) / std::max(1.0, std::fabs(b[i]));
    if (!(off <= far)) far = off;
    if (std::isnan(off)) return off;
  }
  return far;
}

TEST(Scale, RatiosOfPricesDoNotDependOnTheirScale) {
  for (const char* name : kScaleFree) {
    const Indicator& one = indicator(name);
    const auto usual = batch_values(one, narrow_bars(1));
    for (const double scale : {1e-6, 1e-10, 1e-14, 1e-18, 1e-100, 1e6, 1e100})
      EXPECT_LE(farthest(batch_values(one, narrow_bars(scale)), usual), 1e-9)
          << name << " of prices times " << scale;
    for (const int power : {-20, -34, -47, -60, -330, -900, 300})
      EXPECT_EQ(farthest(batch_values(one, narrow_bars(std::ldexp(1.0, power))), usual), 0)
          << name << " of prices times 2^" << power;
    const Market tiny = narrow_bars(std::ldexp(1.0, -47));
    EXPECT_EQ(farthest(stream_values(one, tiny), usual), 0) << name << " bar by bar";
  }
}

TEST(Scale, EveryInstructionSetKeepsTheScale) {
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (const char* name : kScaleFree) {
      const Indicator& one = indicator(name);
      const auto usual = batch_values(one, narrow_bars(1));
      EXPECT_EQ(farthest(batch_values(one, narrow_bars(std::ldexp(1.0, -47))), usual), 0)
          << name << " with " << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

// Differences that are less than 1e-14 of the prices are rounding, at any scale.
TEST(Scale, WhatRoundingLeavesOfEqualPricesCountsAsNothing) {
  for (const double scale : {1.0, 1e-10, 1e-100, 1e100, 0.0}) {
    Market market(1, 60);
    for (int c = 0; c < 4; ++c)
      for (std::size_t t = 0; t < 60; ++t) {
        const double price = 3 * scale;
        market.column[c][t] = t % 2 == 0 ? price : price * (1 + 0x1p-52);
      }
    for (const char* name : {"STOCH", "STOCHF", "WILLR", "CCI"}) {
      const auto values = batch_values(indicator(name), market);
      for (const double v : values)
        EXPECT_TRUE(std::isnan(v) || v == 0) << name << " at " << scale << ": " << v;
      EXPECT_EQ(values.back(), 0) << name;
    }
  }
}

TEST(Scale, OfOneBarRangesAreNoPercentages) {
  const Market market(1, 50);
  const auto of_one = [&](const char* name) {
    const Indicator& one = indicator(name);
    compute::Compute compute({.threads = 1});
    std::vector<double> made(50);
    run(compute, one.plan({{"timeperiod", 1}}), market.inputs(one), {made});
    return made;
  };
  const auto ranges = batch_values(indicator("TRANGE"), market);
  const auto natr = of_one("NATR"), up = of_one("PLUS_DI"), down = of_one("MINUS_DI");
  for (std::size_t t = 1; t < 50; ++t) {
    const double rise = market.column[1][t] - market.column[1][t - 1];
    const double fall = market.column[2][t - 1] - market.column[2][t];
    EXPECT_EQ(natr[t], ranges[t]);
    EXPECT_DOUBLE_EQ(up[t], rise > fall && rise > 0 ? rise / ranges[t] : 0);
    EXPECT_DOUBLE_EQ(down[t], fall > rise && fall > 0 ? fall / ranges[t] : 0);
  }
}

}  // namespace
}  // namespace sluice::market
