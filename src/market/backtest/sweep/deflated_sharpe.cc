#include "market/backtest/sweep/deflated_sharpe.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "market/math/normal.h"

namespace sluice::market {
namespace {

// Returns the expected largest of n values of a standard normal.
double expected_largest(double n) {
  if (n < 2) return 0;
  constexpr double kEuler = std::numbers::egamma;
  return (1 - kEuler) * normal_quantile(1 - 1 / n) +
         kEuler * normal_quantile(1 - 1 / (n * std::numbers::e));
}

struct ReturnMoments {
  double n = 0, mean = 0, deviation = 0, skew = 0, kurtosis = 3;
};

ReturnMoments return_moments(const std::vector<double>& equity) {
  std::vector<double> changes;
  for (std::size_t i = 1; i < equity.size(); ++i)
    if (equity[i - 1] > 0) changes.push_back(equity[i] / equity[i - 1] - 1);
  ReturnMoments s{.n = static_cast<double>(changes.size())};
  for (const double x : changes) s.mean += x / s.n;
  double second = 0, third = 0, fourth = 0;
  for (const double x : changes) {
    const double d = x - s.mean;
    second += d * d / s.n;
    third += d * d * d / s.n;
    fourth += d * d * d * d / s.n;
  }
  if (second <= 0) return s;
  s.deviation = std::sqrt(second);
  s.skew = third / (second * s.deviation);
  s.kurtosis = fourth / (second * second);
  return s;
}

double variance_of_sharpes(const SweepResult& sweep) {
  const double n = static_cast<double>(sweep.sets.size());
  double mean = 0, squares = 0;
  for (const auto& set : sweep.sets) mean += set.metrics.sharpe / n;
  for (const auto& set : sweep.sets) squares += std::pow(set.metrics.sharpe - mean, 2);
  return n > 1 ? squares / (n - 1) : 0;
}

}  // namespace

DeflatedSharpe deflated_sharpe(const SweepResult& sweep, const Backtest& best) {
  // This is the figure of the set itself, like those it is compared with: with several tickers
  // their mean.
  DeflatedSharpe check{.trials = sweep.sets.size(),
                       .sharpe = sweep.sets[sweep.best()].metrics.sharpe};
  check.expected_max_sharpe =
      std::sqrt(variance_of_sharpes(sweep)) * expected_largest(static_cast<double>(check.trials));
  const ReturnMoments s = return_moments(best.equity);
  if (s.deviation <= 0) return check;
  const double year = std::sqrt(sweep.trading.periods_per_year);
  const double sharpe = check.sharpe / year, benchmark = check.expected_max_sharpe / year;
  const double spread = 1 - s.skew * sharpe + (s.kurtosis - 1) / 4 * sharpe * sharpe;
  check.probability =
      normal_cdf((sharpe - benchmark) * std::sqrt(s.n - 1) / std::sqrt(std::max(spread, 1e-12)));
  return check;
}

}  // namespace sluice::market
