#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "market/backtest/report/report.h"

namespace sluice::market {
namespace {

std::string row(std::string_view name, const Metrics& m) {
  return fmt::format(
      "{:<32} {:>12.2f} {:>8.2f}% {:>7.2f} {:>7.2f} {:>8.2f}% {:>7} {:>6.1f}% {:>7.2f} {:>7.1f}%\n",
      name, m.final_equity, 100 * m.cagr, m.sharpe, m.sortino, 100 * m.max_drawdown, m.trades,
      100 * m.win_rate, m.profit_factor, 100 * m.exposure);
}

std::string head(std::string_view name) {
  return fmt::format("{:<32} {:>12} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7} {:>8}\n", name,
                     "equity", "CAGR", "Sharpe", "Sortino", "drawdown", "trades", "wins", "factor",
                     "in");
}

}  // namespace

std::string to_table(const Backtest& b) {
  return head(b.ticker) +
         row(fmt::format("{} {}", to_string(b.options.strategy),
                         describe(b.options.strategy, b.options.parameters)),
             b.metrics) +
         row("buy and hold", b.hold_metrics);
}

std::string to_table(const SweepResult& r, std::size_t most) {
  const std::string over =
      r.tickers.size() > 1 ? fmt::format(", mean of {}", r.tickers.size()) : "";
  std::string text =
      head(fmt::format("{} by {}{}", to_string(r.strategy), to_string(r.metric), over));
  const auto ranking = r.ranking();
  for (std::size_t i = 0; i < std::min(most, ranking.size()); ++i) {
    const auto& set = r.sets[ranking[i]];
    text += row(describe(r.strategy, set.parameters), set.metrics);
  }
  if (ranking.size() > most) text += fmt::format("... and {} more sets\n", ranking.size() - most);
  if (r.tickers.size() < 2) return text;
  text += "\n" + head(ranking.size() > 1 ? "ticker, with its best set" : "ticker");
  for (std::size_t i = 0; i < std::min(most, r.tickers.size()); ++i) {
    const TickerResult& one = r.tickers[i];
    const std::string with =
        ranking.size() > 1 ? " " + describe(r.strategy, r.sets[one.best].parameters) : "";
    text += row(one.ticker + with, one.metrics);
  }
  if (r.tickers.size() > most)
    text += fmt::format("... and {} more tickers\n", r.tickers.size() - most);
  return text;
}

std::string to_table(const WalkForward& w, Strategy strategy) {
  std::string text = head("traded with");
  for (const auto& window : w.windows)
    text += row(describe(strategy, window.parameters), window.out_of_sample);
  return text + row("all windows", w.metrics);
}

std::string describe(const LuckCheck& c) {
  if (c.tried < 2) return "One parameter set was tried.";
  return fmt::format(
      "The best of {} parameter sets: some look good by luck alone. Without any skill the best "
      "of so many would show a Sharpe ratio of about {:.2f}; this one has {:.2f}. The chance "
      "that it is better than luck is {:.0f} % (deflated Sharpe ratio).",
      c.tried, c.sharpe_by_luck, c.sharpe, 100 * c.probability);
}

}  // namespace sluice::market
