#include "market/backtest/sweep/walk_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cancellation.h"
#include "base/error.h"
#include "market/input/require.h"

namespace sluice::market {
namespace {

std::vector<WalkForwardWindow> windows_of(const WalkForwardOptions& options, std::int64_t bars) {
  std::vector<WalkForwardWindow> windows;
  for (std::int64_t begin = options.in_sample + 1; begin < bars; begin += options.out_of_sample) {
    WalkForwardWindow window;
    window.chosen_by = {options.anchored ? 1 : begin - options.in_sample, begin};
    window.traded = {begin, std::min(begin + options.out_of_sample, bars)};
    windows.push_back(window);
  }
  require(!windows.empty(),
          fmt::format("{} bars are too few to choose by {} and trade", bars, options.in_sample));
  return windows;
}

void check(std::span<const PriceHistory> histories, const WalkForwardOptions& options) {
  require(!histories.empty(), "there are no prices to trade on");
  require(options.in_sample >= 2 && options.out_of_sample >= 1,
          "in_sample must be 2 bars at least, out_of_sample 1");
  for (const auto& h : histories) {
    require(
        h.size() == histories[0].size(),
        fmt::format("{} has {} bars, {} has {}; cut them to the same days", short_name(h.ticker),
                    h.size(), short_name(histories[0].ticker), histories[0].size()));
    require(h.days == histories[0].days,
            fmt::format("{} and {} have bars of different days; cut them to the same ones",
                        short_name(h.ticker), short_name(histories[0].ticker)));
  }
}

struct Outcomes {  // of trades, in money of an account that begins with 1
  double profits = 0, losses = 0;

  void add(const Outcomes& other, double cash) {
    profits += other.profits * cash;
    losses += other.losses * cash;
  }
  double factor() const {
    if (losses > 0) return profits / losses;
    return profits > 0 ? std::numeric_limits<double>::infinity() : 0;
  }
};

Outcomes outcomes_of(std::span<const Trade> trades) {
  Outcomes sums;
  for (const Trade& t : trades) (t.profit > 0 ? sums.profits : sums.losses) += std::abs(t.profit);
  return sums;
}

// Trades one window on all tickers, and carries the mean curve on from `cash`. Adds to
// `all` what the trades brought such an account.
void trade(std::span<const PriceHistory> histories, const SweepOptions& options,
           WalkForwardWindow& window, std::vector<double>& curve, Outcomes& all) {
  const double cash = curve.back(), n = static_cast<double>(histories.size());
  const auto bars = static_cast<std::size_t>(window.traded.end - window.traded.first);
  std::vector<double> mean(bars, 0.0);
  Metrics& out = window.out_of_sample;
  double wins = 0;
  Outcomes outcomes;
  for (const PriceHistory& h : histories) {
    const Backtest test =
        run_backtest(h, {options.strategy, window.parameters, options.trading, window.traded});
    for (std::size_t i = 0; i < bars; ++i)
      mean[i] += test.equity[i + 1] / (options.trading.initial_cash * n);
    outcomes.add(outcomes_of(test.trades), 1 / options.trading.initial_cash);
    out.trades += test.metrics.trades;
    wins += test.metrics.win_rate * static_cast<double>(test.metrics.trades);
    out.exposure += test.metrics.exposure / n;
    out.turnover += test.metrics.turnover / n;
  }
  for (const double growth : mean) curve.push_back(cash * growth);
  std::vector<double> alone(curve.end() - static_cast<std::ptrdiff_t>(bars) - 1, curve.end());
  for (double& value : alone) value *= options.trading.initial_cash / cash;
  const Metrics of_curve = metrics_of_curve(alone, options.trading);
  out.final_equity = of_curve.final_equity;
  out.cagr = of_curve.cagr, out.sharpe = of_curve.sharpe, out.sortino = of_curve.sortino;
  out.max_drawdown = of_curve.max_drawdown;
  out.win_rate = out.trades > 0 ? wins / static_cast<double>(out.trades) : 0;
  out.profit_factor = outcomes.factor();
  all.add(outcomes, cash);
}

void summarise(WalkForward& result, const Trading& trading) {
  result.metrics = metrics_of_curve(result.equity, trading);
  double bars = 0, wins = 0, inside = 0, outside = 0;
  for (const auto& w : result.windows) {
    const double part = static_cast<double>(w.traded.end - w.traded.first);
    bars += part;
    result.metrics.exposure += w.out_of_sample.exposure * part;
    result.metrics.turnover += w.out_of_sample.turnover * part;
    result.metrics.trades += w.out_of_sample.trades;
    wins += w.out_of_sample.win_rate * static_cast<double>(w.out_of_sample.trades);
    inside += w.in_sample.cagr;
  }
  outside = result.metrics.cagr * static_cast<double>(result.windows.size());
  result.metrics.exposure /= bars;
  result.metrics.turnover /= bars;
  if (result.metrics.trades > 0)
    result.metrics.win_rate = wins / static_cast<double>(result.metrics.trades);
  result.efficiency = inside > 0 ? outside / inside : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

WalkForward walk_forward(compute::Compute& compute, std::span<const PriceHistory> histories,
                         const WalkForwardOptions& options) {
  check(histories, options);
  WalkForward result;
  result.windows = windows_of(options, static_cast<std::int64_t>(histories[0].size()));
  result.equity.push_back(options.sweep.trading.initial_cash);
  Outcomes outcomes;
  SweepOptions sweeping = options.sweep;
  sweeping.progress = nullptr;
  for (std::size_t i = 0; i < result.windows.size(); ++i) {
    throw_if_cancelled();
    WalkForwardWindow& window = result.windows[i];
    sweeping.span = window.chosen_by;
    const SweepResult found = sweep(compute, histories, sweeping);
    window.parameters = found.sets[found.best()].parameters;
    window.in_sample = found.sets[found.best()].metrics;
    trade(histories, sweeping, window, result.equity, outcomes);
    if (options.progress) options.progress(i + 1, result.windows.size());
  }
  if (!histories[0].days.empty())
    result.days.assign(histories[0].days.begin() + result.windows[0].traded.first - 1,
                       histories[0].days.end());
  summarise(result, options.sweep.trading);
  result.metrics.profit_factor = outcomes.factor();
  return result;
}

}  // namespace sluice::market
