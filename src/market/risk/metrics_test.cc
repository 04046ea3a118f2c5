#include "market/risk/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"

namespace sluice::market {
namespace {

using testing::HasSubstr;

class Risk : public testing::Test {
 protected:
  std::vector<RiskMetrics> metrics(const std::vector<double>& values, std::size_t bars,
                                   const RiskOptions& options = {},
                                   const std::vector<double>& benchmark = {}) {
    std::vector<RiskMetrics> out(values.size() / bars);
    risk_metrics(compute, values, bars, benchmark, out, options);
    return out;
  }
  RiskMetrics one(const std::vector<double>& values, const RiskOptions& options = {},
                  const std::vector<double>& benchmark = {}) {
    return metrics(values, values.size(), options, benchmark)[0];
  }
  std::vector<double> random_returns(std::size_t n, double missing = 0) {
    std::student_t_distribution<double> t(5);
    std::uniform_real_distribution<double> u;
    std::vector<double> r(n);
    for (double& x : r) x = u(random) < missing ? std::nan("") : 0.0004 + 0.01 * t(random);
    return r;
  }

  compute::Compute compute{{.threads = 2}};
  std::mt19937_64 random{20240229};
};

// By the definitions, one bar after the other, in long double.
RiskMetrics by_definition(const std::vector<double>& r, const RiskOptions& o) {
  long double sum = 0, n = 0, below = 0, m2 = 0, m3 = 0, m4 = 0, wealth = 1, peak = 1, depth = 1;
  for (double x : r)
    if (!std::isnan(x)) sum += x, n += 1;
  const long double mean = sum / n;
  RiskMetrics m{};
  std::int64_t high = -1;
  m.peak = m.trough = m.recovery = -1;
  long double fell_from = 0;
  for (std::size_t t = 0; t < r.size(); ++t) {
    if (std::isnan(r[t])) continue;
    const long double d = r[t] - mean, u = std::min(r[t] - o.required_return, 0.0);
    m2 += d * d, m3 += d * d * d, m4 += d * d * d * d, below += u * u;
    wealth *= 1 + static_cast<long double>(r[t]);
    if (wealth > peak) peak = wealth, high = static_cast<std::int64_t>(t);
    if (wealth / peak < depth) {
      depth = wealth / peak, fell_from = peak;
      m.peak = high, m.trough = static_cast<std::int64_t>(t), m.recovery = -1;
    } else if (m.trough >= 0 && m.recovery < 0 && wealth >= fell_from) {
      m.recovery = static_cast<std::int64_t>(t);
    }
  }
  const long double year = o.periods_per_year, sd = sqrtl(m2 / (n - o.ddof)), var = m2 / n;
  const long double g1 = m3 / n / powl(var, 1.5L), g2 = m4 / n / (var * var) - 3;
  m.count = static_cast<double>(n);
  m.total_return = static_cast<double>(wealth - 1);
  m.annual_return = static_cast<double>(powl(wealth, year / n) - 1);
  m.mean = static_cast<double>(mean);
  m.volatility = static_cast<double>(sd * sqrtl(year));
  m.downside_deviation = static_cast<double>(sqrtl(below / n * year));
  m.sharpe = static_cast<double>((mean - o.risk_free) / sd * sqrtl(year));
  m.sortino = static_cast<double>((mean - o.required_return) * year / m.downside_deviation);
  m.max_drawdown = static_cast<double>(depth - 1);
  m.calmar = m.annual_return / -m.max_drawdown;
  m.skew = static_cast<double>(sqrtl(n * (n - 1)) / (n - 2) * g1);
  m.kurtosis = static_cast<double>((n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g2 + 6));
  return m;
}

void expect_near(double got, double want, const char* what) {
  EXPECT_NEAR(got, want, 1e-11 * std::max(1.0, std::abs(want))) << what;
}

void expect_same(const RiskMetrics& got, const RiskMetrics& want) {
  EXPECT_EQ(got.count, want.count);
  expect_near(got.total_return, want.total_return, "total_return");
  expect_near(got.annual_return, want.annual_return, "annual_return");
  expect_near(got.mean, want.mean, "mean");
  expect_near(got.volatility, want.volatility, "volatility");
  expect_near(got.downside_deviation, want.downside_deviation, "downside_deviation");
  expect_near(got.sharpe, want.sharpe, "sharpe");
  expect_near(got.sortino, want.sortino, "sortino");
  expect_near(got.calmar, want.calmar, "calmar");
  expect_near(got.max_drawdown, want.max_drawdown, "max_drawdown");
  expect_near(got.skew, want.skew, "skew");
  expect_near(got.kurtosis, want.kurtosis, "kurtosis");
  EXPECT_EQ(got.peak, want.peak);
  EXPECT_EQ(got.trough, want.trough);
  EXPECT_EQ(got.recovery, want.recovery);
}

TEST_F(Risk, MetricsFollowTheDefinitionsForEveryLength) {
  const RiskOptions options{.risk_free = 0.0001, .required_return = 0.0002};
  for (std::size_t n : {4u, 5u, 100u, 127u, 128u, 129u, 511u, 512u, 513u, 2000u, 10001u}) {
    SCOPED_TRACE(n);
    const auto r = random_returns(n);
    expect_same(one(r, options), by_definition(r, options));
  }
}

TEST_F(Risk, MissingValuesAreSkipped) {
  for (const double share : {0.01, 0.3, 0.9}) {
    SCOPED_TRACE(share);
    auto r = random_returns(3000, share);
    std::fill_n(r.begin(), 700, std::nan(""));
    expect_same(one(r), by_definition(r, {}));
  }
}

TEST_F(Risk, ALongSeriesIsSplitOverThreadsWithTheSameResult) {
  const auto r = random_returns(1'000'003);
  expect_same(one(r), by_definition(r, {}));
}

TEST_F(Risk, SeriesOfABatchAreIndependent) {
  const std::size_t bars = 777;
  const auto all = random_returns(bars * 33);
  const auto batch = metrics(all, bars);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RiskMetrics alone = one({all.begin() + static_cast<long>(i * bars),
                                   all.begin() + static_cast<long>((i + 1) * bars)});
    EXPECT_EQ(batch[i].sharpe, alone.sharpe);
    EXPECT_EQ(batch[i].max_drawdown, alone.max_drawdown);
    EXPECT_EQ(batch[i].trough, alone.trough);
  }
}

TEST_F(Risk, MetricsOfPricesEqualThoseOfTheirReturns) {
  auto r = random_returns(5000);
  std::vector<double> prices(r.size());
  double p = 100;
  for (std::size_t t = 0; t < r.size(); ++t) prices[t] = p *= 1 + r[t];
  std::fill_n(prices.begin(), 130, std::nan(""));
  std::vector<double> returns(prices.size());
  returns_of(compute.workers(), prices, prices.size(), ReturnKind::simple, returns);
  EXPECT_TRUE(std::isnan(returns[130]));
  EXPECT_NEAR(returns[131], r[131], 1e-14);
  expect_same(one(prices, {.input = RiskInput::prices}), by_definition(returns, {}));
  returns_of(compute.workers(), prices, prices.size(), ReturnKind::log, returns);
  EXPECT_NEAR(returns[131], std::log1p(r[131]), 1e-14);
}

TEST_F(Risk, BetaAndAlphaEqualARegressionOverThePairs) {
  auto b = random_returns(2000);
  std::vector<double> r(b.size());
  for (std::size_t t = 0; t < b.size(); ++t) r[t] = 0.0003 + 1.7 * b[t];
  r[5] = std::nan("");
  b[900] = std::nan("");
  const RiskMetrics m = one(r, {}, b);
  EXPECT_NEAR(m.beta, 1.7, 1e-12);
  EXPECT_NEAR(m.alpha, std::pow(1.0003, 252) - 1, 1e-12);
  EXPECT_TRUE(std::isnan(one(r).beta));
}

// numpy and pandas on r = [1, -2, 3, -4, 5] %: mean, std(ddof=1), skew(), kurt().
TEST_F(Risk, MetricsAgreeWithPandas) {
  const RiskMetrics m = one({0.01, -0.02, 0.03, -0.04, 0.05});
  expect_near(m.mean, 0.006, "mean");
  expect_near(m.volatility, 0.036469165057620936 * std::sqrt(252.0), "volatility");
  expect_near(m.skew, -0.13607128123709503, "skew");
  expect_near(m.kurtosis, -1.6298264458137823, "kurtosis");
  expect_near(m.max_drawdown, 1.03 * 0.96 / 1.03 - 1, "max_drawdown");
  EXPECT_EQ(m.peak, 2);
  EXPECT_EQ(m.trough, 3);
  EXPECT_EQ(m.recovery, 4);
}

TEST_F(Risk, UndefinedMetricsAreNan) {
  const RiskMetrics flat = one(std::vector<double>(100, 0.01));
  EXPECT_TRUE(std::isinf(flat.sharpe));
  EXPECT_TRUE(std::isnan(flat.calmar));
  EXPECT_EQ(flat.trough, -1);
  EXPECT_EQ(one(std::vector<double>(9, std::nan(""))).count, 0);
  EXPECT_EQ(one({-1.0, 0.5}).max_drawdown, -1);
}

TEST_F(Risk, ASmallSpreadOfLargeValuesIsExact) {
  std::vector<double> r(4096);
  for (std::size_t t = 0; t < r.size(); ++t) r[t] = 1e6 + static_cast<double>(t % 2);
  EXPECT_NEAR(one(r, {.ddof = 0}).volatility, 0.5 * std::sqrt(252.0), 1e-9);
}

TEST_F(Risk, InvalidLengthsAndOptionsAreRefused) {
  std::vector<RiskMetrics> out(2);
  const auto error = [&](std::size_t bars, std::size_t benchmark, RiskOptions o) -> std::string {
    try {
      risk_metrics(compute, random_returns(20), bars, random_returns(benchmark), out, o);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error(9, 0, {}), HasSubstr("values"));
  EXPECT_THAT(error(10, 9, {}), HasSubstr("benchmark"));
  EXPECT_THAT(error(10, 0, {.periods_per_year = 0}), HasSubstr("periods_per_year"));
  EXPECT_EQ(error(10, 10, {}), "");
}

}  // namespace
}  // namespace sluice::market
