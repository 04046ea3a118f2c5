#include "market/risk/tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "market/math/normal.h"
#include "market/risk/simulated_tail.h"

namespace sluice::market {
namespace {

class Tail : public testing::Test {
 protected:
  TailRisk one(const std::vector<double>& r, const TailOptions& options = {}) {
    TailRisk out{};
    tail_risk(compute, r, r.size(), {&out, 1}, options);
    return out;
  }
  std::vector<double> random_returns(std::size_t n) {
    std::normal_distribution<double> normal(0.0004, 0.01);
    std::vector<double> r(n);
    for (double& x : r) x = normal(random);
    return r;
  }

  compute::Compute compute{{.threads = 2}};
  std::mt19937_64 random{7};
};

// By sorting.
TailRisk sorted_tail(std::vector<double> r, double cutoff) {
  r.erase(std::remove_if(r.begin(), r.end(), [](double x) { return std::isnan(x); }), r.end());
  std::sort(r.begin(), r.end());
  const double at = static_cast<double>(r.size() - 1) * cutoff;
  const auto k = static_cast<std::size_t>(at);
  const double share = at - static_cast<double>(k), next = r[std::min(k + 1, r.size() - 1)];
  double sum = 0;
  for (std::size_t i = 0; i <= k; ++i) sum += r[i];
  return {static_cast<double>(r.size()), r[k] + (next - r[k]) * share,
          sum / static_cast<double>(k + 1)};
}

void expect_same(const TailRisk& got, const TailRisk& want) {
  EXPECT_EQ(got.count, want.count);
  EXPECT_NEAR(got.var, want.var, 1e-15 * std::max(1.0, std::abs(want.var)));
  EXPECT_NEAR(got.cvar, want.cvar, 1e-13 * std::max(1.0, std::abs(want.cvar)));
}

TEST_F(Tail, TailsEqualThoseOfTheSortedReturns) {
  for (const std::size_t n : {1u, 2u, 19u, 20u, 21u, 252u, 4095u, 4096u, 5000u, 100001u})
    for (const double cutoff : {0.001, 0.01, 0.05, 0.5, 0.95, 0.999}) {
      SCOPED_TRACE(testing::Message() << n << " returns, " << cutoff);
      const auto r = random_returns(n);
      expect_same(one(r, {.cutoff = cutoff}), sorted_tail(r, cutoff));
    }
}

TEST_F(Tail, SeriesThatMisleadASampleAreExact) {
  std::vector<std::vector<double>> hard;
  hard.emplace_back(10000, 0.25);  // all the same
  auto rising = random_returns(10000);
  std::sort(rising.begin(), rising.end());
  hard.push_back(rising);
  std::reverse(rising.begin(), rising.end());
  hard.push_back(rising);
  auto rhythm = random_returns(20000);  // what is low comes in step
  for (std::size_t i = 0; i < rhythm.size(); ++i) rhythm[i] += i % 10 == 3 ? -1 : 0;
  hard.push_back(rhythm);
  auto rare = std::vector<double>(9000, 0.0);  // the low ones in one place
  std::fill_n(rare.begin() + 4321, 700, -0.5);
  hard.push_back(rare);
  auto missing = random_returns(50000);
  for (std::size_t i = 0; i < missing.size(); ++i)
    if (i % 97 != 0) missing[i] = std::nan("");
  hard.push_back(missing);
  for (std::size_t i = 0; i < hard.size(); ++i) {
    SCOPED_TRACE(i);
    for (const double cutoff : {0.01, 0.05, 0.2})
      expect_same(one(hard[i], {.cutoff = cutoff}), sorted_tail(hard[i], cutoff));
  }
}

// np.percentile([-0.05, ..., 0.04], 5) and the mean of the one smallest.
TEST_F(Tail, HistoricalVarEqualsNumpysPercentile) {
  std::vector<double> r;
  for (int i = -5; i < 5; ++i) r.push_back(i / 100.0);
  const TailRisk t = one(r);
  EXPECT_NEAR(t.var, -0.0455, 1e-16);
  EXPECT_NEAR(t.cvar, -0.05, 1e-16);
}

TEST_F(Tail, QuantLibsConventionGivesNonNegativeLosses) {
  std::vector<double> r;
  for (int i = -50; i < 50; ++i) r.push_back(i / 1000.0);
  const TailOptions quantlib{.convention = TailConvention::quantlib};
  const TailRisk t = one(r, quantlib);
  EXPECT_NEAR(t.var, 0.046, 1e-15);                                 // the 5th of 100
  EXPECT_NEAR(t.cvar, (0.050 + 0.049 + 0.048 + 0.047) / 4, 1e-15);  // strictly below
  for (double& x : r) x += 1;
  EXPECT_EQ(one(r, quantlib).var, 0);
}

// scipy.stats.norm: ppf(0.05), ppf(0.01), ppf(1e-9), ppf(0.975).
TEST_F(Tail, TheNormalQuantileIsExact) {
  EXPECT_NEAR(normal_quantile(0.05), -1.6448536269514729, 1e-15);
  EXPECT_NEAR(normal_quantile(0.01), -2.3263478740408408, 1e-15);
  EXPECT_NEAR(normal_quantile(1e-9), -5.9978070150076865, 5e-15);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-16);
}

TEST_F(Tail, ParametricTailsAreThoseOfTheNormalDistribution) {
  const std::vector<double> r{0.01, -0.02, 0.03, -0.04, 0.05, std::nan("")};
  const double mean = 0.006, sd = 0.03646916505762094;
  const TailRisk t = one(r, {.method = TailMethod::parametric});
  EXPECT_EQ(t.count, 5);
  EXPECT_NEAR(t.var, mean - 1.6448536269514729 * sd, 1e-15);
  EXPECT_NEAR(t.cvar, mean - 2.0627128075074254 * sd, 1e-15);
  const TailRisk loss =
      one(r, {.method = TailMethod::parametric, .convention = TailConvention::quantlib});
  EXPECT_EQ(loss.var, -t.var);
}

// The true quantile is known; its standard error is sqrt(p (1 - p) / n) over the density.
TEST_F(Tail, SimulatedTailsMatchTheirDistribution) {
  const auto r = random_returns(1000);
  double mean = 0, squares = 0;
  for (const double x : r) mean += std::log1p(x) / 1000;
  for (const double x : r) squares += std::pow(std::log1p(x) - mean, 2) / 999;
  const double spread = std::sqrt(10 * squares), z = normal_quantile(0.05);
  const double error = std::sqrt(0.05 * 0.95 / (1 << 20)) * spread / normal_density(z);
  const TailRisk t = simulated_tail(compute, r, {.horizon = 10});
  EXPECT_EQ(t.count, 1 << 20);
  EXPECT_NEAR(t.var, std::expm1(10 * mean + z * spread), 4 * error);
  EXPECT_LT(t.cvar, t.var);
  EXPECT_NE(simulated_tail(compute, r, {.horizon = 10, .seed = 43}).var, t.var);
  compute::Compute alone({.threads = 1});
  EXPECT_EQ(simulated_tail(alone, r, {.horizon = 10}).var, t.var);
  EXPECT_EQ(simulated_tail(alone, r, {.horizon = 10}).cvar, t.cvar);
  EXPECT_THROW(simulated_tail(compute, {}, {}), Error);
}

TEST_F(Tail, TheTailOfNoReturnsIsNan) {
  const TailRisk t = one({std::nan(""), std::nan("")});
  EXPECT_EQ(t.count, 0);
  EXPECT_TRUE(std::isnan(t.var));
  EXPECT_THROW(one({0.1}, {.cutoff = 0}), Error);
  EXPECT_THROW(one({0.1}, {.cutoff = std::nan("")}), Error);
}

}  // namespace
}  // namespace sluice::market
