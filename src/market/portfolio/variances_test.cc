// Portfolios of assets whose volatilities differ by orders of magnitude, and of extreme limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "market/portfolio/cvar.h"
#include "market/portfolio/portfolio.h"

namespace sluice::market {
namespace {

using Values = std::vector<double>;

constexpr double kVolatilityRatios[] = {10, 1e2, 1e3, 1e4, 3e4, 1e5, 1e6, 1e7};  // of volatilities

Values volatilities(double ratio) { return {ratio * 1e-3, 1e-3, 1.5e-3}; }

Values covariance_from(const Values& volatility, const Values& correlation) {
  const std::size_t n = volatility.size();
  Values c(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      c[i * n + j] = volatility[i] * volatility[j] * correlation[i * n + j];
  return c;
}

const Values kNone{1, 0, 0, 0, 1, 0, 0, 0, 1}, kSome{1, .9, .5, .9, 1, .3, .5, .3, 1};

// 1 / sum of 1 / variance is the least variance without correlation.
TEST(Variances, TheLeastVolatilityIsFoundWhateverTheRatioOfVolatilities) {
  for (const double ratio : kVolatilityRatios) {
    const Values s = volatilities(ratio), c = covariance_from(s, kNone);
    double sum = 0;
    for (const double v : s) sum += 1 / (v * v);
    const Portfolio p = optimise({{}, c}, {});
    EXPECT_NEAR(p.volatility * std::sqrt(sum), 1, 1e-9) << ratio;
    EXPECT_NEAR(p.weights[1] * s[1] * s[1] * sum, 1, 1e-6) << ratio;
    EXPECT_NEAR(p.weights[2] * s[2] * s[2] * sum, 1, 1e-6) << ratio;
  }
}

// The volatile asset is left out, and the other two have the closed form of two assets.
TEST(Variances, ACorrelatedVolatileAssetIsLeftOut) {
  for (const double ratio : kVolatilityRatios) {
    const Portfolio p = optimise({{}, covariance_from(volatilities(ratio), kSome)}, {});
    const double a = 1e-6, b = 2.25e-6, ab = .3 * 1.5e-6;
    EXPECT_NEAR(p.volatility / std::sqrt((a * b - ab * ab) / (a + b - 2 * ab)), 1, 1e-9) << ratio;
    EXPECT_NEAR(p.weights[0], 0, 1e-9) << ratio;
  }
}

TEST(Variances, TheBestSharpeRatioIsFoundWhateverTheRatioOfVolatilities) {
  const Values mean{.5, .05, .04};
  for (const double ratio : kVolatilityRatios) {
    const Values s = volatilities(ratio), c = covariance_from(s, kNone);
    double square = 0;
    for (std::size_t i = 0; i < 3; ++i) square += mean[i] / s[i] * (mean[i] / s[i]);
    const Portfolio p = optimise({mean, c}, {.kind = Goal::Kind::max_sharpe});
    EXPECT_NEAR(p.sharpe / std::sqrt(square), 1, 1e-9) << ratio;
  }
}

// Without a correlation a target between two volatilities is reached by the best mix.
TEST(Variances, TargetsAreReachedWhateverTheRatioOfVolatilities) {
  const Values mean{.5, .05, .04};
  for (const double ratio : kVolatilityRatios) {
    if (ratio > 1e6) break;  // rounding of the weights alone is more than the target's digits
    const Values c = covariance_from(volatilities(ratio), kNone);
    const Portfolio risky = optimise({mean, c}, {.kind = Goal::Kind::target_risk, .value = 2e-3});
    EXPECT_NEAR(risky.volatility, 2e-3, 1e-10) << ratio;
    // The same portfolio has the least volatility of those with its return.
    const Portfolio same =
        optimise({mean, c}, {.kind = Goal::Kind::target_return, .value = risky.expected_return});
    EXPECT_NEAR(same.volatility / 2e-3, 1, 1e-6) << ratio;
    const auto frontier = efficient_frontier({mean, c}, 5);
    EXPECT_NEAR(frontier.back().weights[0], 1, 1e-9) << ratio;
    for (std::size_t i = 1; i < frontier.size(); ++i)
      EXPECT_GT(frontier[i].volatility, frontier[i - 1].volatility) << ratio;
  }
}

TEST(Variances, TheScaleOfTheVariancesDoesNotMatter) {
  const Values mean{.1, .05, .04};
  for (const double scale : {1e-16, 1e-12, 1e-8, 1e8, 1e16}) {
    Values c = covariance_from(volatilities(10), kSome);
    const Portfolio want = optimise({mean, c}, {});
    for (double& v : c) v *= scale;
    const Portfolio got = optimise({mean, c}, {});
    EXPECT_THAT(got.weights, testing::Pointwise(testing::DoubleNear(1e-9), want.weights)) << scale;
  }
}

// All portfolios have the target risk, but for rounding: the best return decides.
TEST(Variances, ATargetAtTheOnlyRiskGivesTheBestReturn) {
  const Values mean{-.0118, -.0005};
  const PortfolioLimits limits{.upper = {.7}};
  for (const double v : {1.0, 1e-4, 1e-8, 1e-12, 2.032079712887618e-15})
    for (const double more : {1.0, 1.01}) {
      const Goal goal{.kind = Goal::Kind::target_risk, .value = more * std::sqrt(v)};
      const Portfolio p = optimise({mean, Values(4, v)}, goal, limits);
      EXPECT_NEAR(p.expected_return, -.3 * .0118 - .7 * .0005, 1e-8) << v << ' ' << more;
      EXPECT_NEAR(p.volatility / std::sqrt(v), 1, 1e-9);
    }
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Variances, WeightsThatAreNotFiniteAreRefused) {
  const Values mean{.1, .2}, c{.04, 0, 0, .09};
  PortfolioLimits limits{.lower = {1e308}, .upper = {1e308}};
  for (const auto kind : {Goal::Kind::min_volatility, Goal::Kind::max_sharpe,
                          Goal::Kind::max_quadratic_utility, Goal::Kind::target_return})
    for (const double sum : {1.0, 1e308}) {
      limits.sum = sum;
      const auto message = refusal([&] {
        optimise({mean, c}, {.kind = kind, .value = 1}, limits);
      });
      EXPECT_NE(message, "") << static_cast<int>(kind) << ' ' << sum;
    }
  const Values returns{.01, -.02, .03, .02, .01, -.01};
  EXPECT_NE(refusal([&] { optimise_cvar({mean, returns}, {}, limits); }), "");
}

}  // namespace
}  // namespace sluice::market
