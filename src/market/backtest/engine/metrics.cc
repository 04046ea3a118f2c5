#include "market/backtest/engine/metrics.h"

#include <cmath>
#include <limits>

namespace sluice::market {
namespace {

constexpr Metric kMetrics[] = {Metric::sharpe,        Metric::sortino,      Metric::cagr,
                               Metric::final_equity,  Metric::max_drawdown, Metric::win_rate,
                               Metric::profit_factor, Metric::exposure,     Metric::turnover,
                               Metric::trades};

}  // namespace

std::string_view to_string(Metric metric) noexcept {
  static constexpr std::string_view kNames[] = {
      "sharpe",   "sortino",       "cagr",     "final_equity", "max_drawdown",
      "win_rate", "profit_factor", "exposure", "turnover",     "trades"};
  return kNames[static_cast<std::size_t>(metric)];
}

std::optional<Metric> metric_from(std::string_view name) noexcept {
  for (const Metric metric : kMetrics)
    if (name == to_string(metric)) return metric;
  return std::nullopt;
}

std::span<const Metric> all_metrics() noexcept { return kMetrics; }

double value(const Metrics& m, Metric metric) noexcept {
  switch (metric) {
    case Metric::sharpe: return m.sharpe;
    case Metric::sortino: return m.sortino;
    case Metric::cagr: return m.cagr;
    case Metric::final_equity: return m.final_equity;
    case Metric::max_drawdown: return m.max_drawdown;
    case Metric::win_rate: return m.win_rate;
    case Metric::profit_factor: return m.profit_factor;
    case Metric::exposure: return m.exposure;
    case Metric::turnover: return m.turnover;
    case Metric::trades: return static_cast<double>(m.trades);
  }
  return 0;
}

bool better(Metric metric, double a, double b) noexcept {
  const bool less = metric == Metric::max_drawdown || metric == Metric::turnover;
  if (std::isnan(b)) return !std::isnan(a);
  return less ? a < b : a > b;
}

Metrics metrics_of(const Tally& tally, std::int64_t bars, const Trading& trading) {
  const double n = static_cast<double>(bars), year = trading.periods_per_year;
  const double mean = tally.sum / n, excess = mean - trading.risk_free / year;
  // A deviation that is only rounding error counts as zero.
  const double rest = tally.squares - n * mean * mean;
  const bool varies = bars > 1 && rest > 1e-14 * tally.squares;
  Metrics m;
  m.final_equity = tally.equity;
  const double growth = tally.equity / trading.initial_cash;
  m.cagr = growth > 0 ? std::pow(growth, year / n) - 1 : -1;
  m.sharpe = varies ? excess / std::sqrt(rest / (n - 1)) * std::sqrt(year) : 0;
  m.sortino = tally.downside > 0 ? excess / std::sqrt(tally.downside / n) * std::sqrt(year) : 0;
  m.max_drawdown = tally.max_drawdown;
  m.trades = tally.trades;
  m.win_rate = tally.trades > 0 ? static_cast<double>(tally.wins) / tally.trades : 0;
  if (tally.losses > 0)
    m.profit_factor = tally.profits / tally.losses;
  else
    m.profit_factor = tally.profits > 0 ? std::numeric_limits<double>::infinity() : 0;
  m.exposure = static_cast<double>(tally.bars_in) / n;
  m.turnover = tally.traded * year / n;
  return m;
}

}  // namespace sluice::market
