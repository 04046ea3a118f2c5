// Performance metrics of a backtest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "market/backtest/engine/trading.h"

namespace sluice::market {

// Returns are those of the account's equity from close to close, one for each traded bar.
struct Metrics {
  double final_equity = 0;
  double cagr = 0;           // growth a year, compounded
  double sharpe = 0;         // (mean - risk-free) / sample deviation, a year; 0 without any
  double sortino = 0;        // the same over the root mean square of what is under risk-free
  double max_drawdown = 0;   // largest fall of a close's equity under the highest before
  double win_rate = 0;       // of trades with a profit after costs: above 1e-9 of equity
  double profit_factor = 0;  // profits / losses; infinite without losses
  double exposure = 0;       // part of closes with a position
  double turnover = 0;       // value traded / equity at the time, a year
  std::int64_t trades = 0;   // entered; one still open counts at the last close
};

inline constexpr double kBreakEven = 1e-9;  // of equity: less is rounding, not a profit

enum class Metric : std::int32_t {
  sharpe,
  sortino,
  cagr,
  final_equity,
  max_drawdown,
  win_rate,
  profit_factor,
  exposure,
  turnover,
  trades
};
std::string_view to_string(Metric metric) noexcept;
std::optional<Metric> metric_from(std::string_view name) noexcept;
std::span<const Metric> all_metrics() noexcept;
double value(const Metrics& metrics, Metric metric) noexcept;
// Returns whether `a` is better than `b`. Smaller drawdowns and turnovers are better. A NaN is
// never better.
bool better(Metric metric, double a, double b) noexcept;

// Sums that a backtest accumulates bar by bar or trade by trade. The metrics follow from them.
// Sweeps store their results in this form.
struct Tally {
  double equity = 0, max_drawdown = 0;
  double sum = 0, squares = 0, downside = 0;  // of returns; downside: squared, under risk-free
  double profits = 0, losses = 0;             // both positive
  double traded = 0;                          // sum of value / equity
  std::int32_t trades = 0, wins = 0, bars_in = 0, reserved = 0;
};

// `bars` is the number of returns.
Metrics metrics_of(const Tally& tally, std::int64_t bars, const Trading& trading);

}  // namespace sluice::market
