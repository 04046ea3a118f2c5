#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "market/backtest/report/report.h"

namespace sluice::market {
namespace {

std::string row(std::string_view name, const Metrics& m) {
  return fmt::format(
      "{:<32} {:>12.2f} {:>8.2f}% {:>7.2f} {:>7.2f} {:>8.2f}% {:>7} {:>6.1f}% {:>7.2f} {:>7.1f}%\n",
      printable(name), m.final_equity, 100 * m.cagr, m.sharpe, m.sortino, 100 * m.max_drawdown,
      m.trades, 100 * m.win_rate, m.profit_factor, 100 * m.exposure);
}

std::string head(std::string_view name) {
  return fmt::format("{:<32} {:>12} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7} {:>8}\n",
                     printable(name), "equity", "CAGR", "Sharpe", "Sortino", "drawdown", "trades",
                     "wins", "factor", "in");
}

}  // namespace

std::string to_table(const Backtest& b) {
  return head(b.ticker) +
         row(fmt::format("{} {}", to_string(b.options.strategy),
                         describe(b.options.strategy, b.options.parameters)),
             b.metrics) +
         row("buy and hold", b.hold_metrics);
}

std::string to_table(const SweepResult& r, std::size_t max_rows) {
  const std::string over =
      r.tickers.size() > 1 ? fmt::format(", mean of {}", r.tickers.size()) : "";
  std::string text =
      head(fmt::format("{} by {}{}", to_string(r.strategy), to_string(r.metric), over));
  const auto ranking = r.ranking();
  for (std::size_t i = 0; i < std::min(max_rows, ranking.size()); ++i) {
    const auto& set = r.sets[ranking[i]];
    text += row(describe(r.strategy, set.parameters), set.metrics);
  }
  if (ranking.size() > max_rows)
    text += fmt::format("... and {} more sets\n", ranking.size() - max_rows);
  if (r.tickers.size() < 2) return text;
  text += "\n" + head(ranking.size() > 1 ? "ticker, with its best set" : "ticker");
  for (std::size_t i = 0; i < std::min(max_rows, r.tickers.size()); ++i) {
    const TickerResult& one = r.tickers[i];
    const std::string with =
        ranking.size() > 1 ? " " + describe(r.strategy, r.sets[one.best].parameters) : "";
    text += row(one.ticker + with, one.metrics);
  }
  if (r.tickers.size() > max_rows)
    text += fmt::format("... and {} more tickers\n", r.tickers.size() - max_rows);
  return text;
}

std::string to_table(const WalkForward& w, Strategy strategy) {
  std::string text = head("traded with");
  for (const auto& window : w.windows)
    text += row(describe(strategy, window.parameters), window.out_of_sample);
  return text + row("all windows", w.metrics);
}

std::string describe(const DeflatedSharpe& c) {
  if (c.trials < 2) return "One parameter set was tried.";
  return fmt::format(
      "The best of {} parameter sets is biased by selection. Without any skill the expected "
      "maximum Sharpe ratio of so many is about {:.2f}; this one has {:.2f}. The probability "
      "that its true Sharpe ratio exceeds that of chance is {:.0f} % (deflated Sharpe ratio).",
      c.trials, c.expected_max_sharpe, c.sharpe, 100 * c.probability);
}

}  // namespace sluice::market
