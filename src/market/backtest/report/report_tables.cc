#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "market/backtest/report/report_parts.h"

namespace sluice::market::page {
namespace {

std::string heat_cell(double value, double scale, const std::string& text,
                      std::string_view more = "") {
  const double strength = scale > 0 ? std::min(1.0, std::abs(value) / scale) : 0;
  return fmt::format("<td><span class=\"{} {}\" style=\"--s:{:.2f}\">{}</span></td>",
                     value >= 0 ? "up" : "down", more, 0.08 + 0.62 * strength, text);
}

std::string signed_percent(double fraction) { return signed_number(100 * fraction, 1); }

std::string date_of(const Backtest& b, std::int64_t bar) {
  if (b.days.empty()) return fmt::format("bar {}", bar);
  return to_date(b.days[static_cast<std::size_t>(bar - b.options.span.first + 1)]);
}

struct YearOfMonths {
  double month[12] = {};
  bool has[12] = {};
  double total = 1;
};

std::map<int, YearOfMonths> by_month(const Backtest& b) {
  std::map<int, YearOfMonths> years;
  for (std::size_t i = 1; i < b.equity.size(); ++i) {
    const Month m = month_of(b.days[i]);
    YearOfMonths& year = years[m.year];
    const auto at = static_cast<std::size_t>(m.month - 1);
    const double growth = b.equity[i - 1] > 0 ? b.equity[i] / b.equity[i - 1] : 1;
    year.month[at] = (year.has[at] ? 1 + year.month[at] : 1) * growth - 1;
    year.has[at] = true;
    year.total *= growth;
  }
  return years;
}

// Gives a price two decimals, one under 1 five significant digits.
std::string price(double v) { return v >= 1 ? fmt::format("{:.2f}", v) : fmt::format("{:.5g}", v); }

std::string short_number(double v) { return fmt::format("{:g}", v); }

// The two parameters that a sweep varied most, as rows and columns.
struct Axes {
  std::size_t row = 0, column = 1;
  std::vector<double> rows, columns;
};

Axes axes_of(const SweepResult& r) {
  std::vector<std::pair<std::size_t, std::size_t>> counts;  // of values, of parameter
  std::vector<std::set<double>> values(kMaxStrategyParameters);
  for (const auto& set : r.sets)
    for (std::size_t i = 0; i < parameters(r.strategy).size(); ++i)
      values[i].insert(set.parameters[i]);
  for (std::size_t i = 0; i < parameters(r.strategy).size(); ++i)
    counts.emplace_back(values[i].size(), i);
  std::ranges::stable_sort(counts, std::greater<>{}, [](const auto& c) { return c.first; });
  Axes axes;
  axes.row = std::min(counts[0].second, counts[1].second);
  axes.column = std::max(counts[0].second, counts[1].second);
  axes.rows.assign(values[axes.row].begin(), values[axes.row].end());
  axes.columns.assign(values[axes.column].begin(), values[axes.column].end());
  return axes;
}

// The best set of each cell: of those with these values of the two parameters.
using BestSets = std::map<std::pair<double, double>, std::size_t>;

BestSets best_sets_of_cells(const SweepResult& r, const Axes& axes) {
  BestSets best;
  for (std::size_t i = 0; i < r.sets.size(); ++i) {
    const auto& p = r.sets[i].parameters;
    const auto [at, fresh] = best.try_emplace({p[axes.row], p[axes.column]}, i);
    if (!fresh && better(r.metric, value(r.sets[i].metrics, r.metric),
                         value(r.sets[at->second].metrics, r.metric)))
      at->second = i;
  }
  return best;
}

double largest_magnitude(const SweepResult& r, const BestSets& sets) {
  double largest = 0;
  for (const auto& [cell, i] : sets) {
    const double v = value(r.sets[i].metrics, r.metric);
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  }
  return largest;
}

// Returns at most `count` of the values, with both ends.
std::vector<double> thinned(const std::vector<double>& all, std::size_t count) {
  if (all.size() <= count) return all;
  std::vector<double> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * (all.size() - 1) / (count - 1)]);
  return some;
}

std::string metric_text(Metric metric, double v) {
  switch (metric) {
    case Metric::cagr:
    case Metric::max_drawdown:
    case Metric::win_rate:
    case Metric::exposure: return signed_percent(v);
    case Metric::final_equity: return money(v);
    case Metric::trades: return fmt::format("{:.0f}", v);
    default: return signed_number(v, 2);
  }
}

}  // namespace

std::string months(const Backtest& b) {
  if (b.days.empty()) return "<p class=hint>The prices have no dates.</p>";
  const auto years = by_month(b);
  std::string html = "<div class=wide><table class=heat><thead><tr><th></th>";
  for (const char* name :
       {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Year"})
    html += fmt::format("<th>{}</th>", name);
  html += "</tr></thead><tbody>";
  for (const auto& [year, of] : years) {
    html += fmt::format("<tr><th>{}</th>", year);
    for (std::size_t m = 0; m < 12; ++m)
      html += of.has[m] ? heat_cell(of.month[m], 0.12, signed_percent(of.month[m])) : "<td></td>";
    html += heat_cell(of.total - 1, 0.4, signed_percent(of.total - 1), "year") + "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string trades_table(const Backtest& b) {
  constexpr std::size_t kMaxRows = 1000;
  if (b.trades.empty()) return "<p class=hint>There were none.</p>";
  std::string html;
  if (b.trades.size() > kMaxRows)
    html = fmt::format("<p class=hint>The last {} of {}.</p>", kMaxRows, b.trades.size());
  html +=
      "<div class=\"wide tall\"><table><thead><tr><th>Entered</th><th class=l>Left</th>"
      "<th class=l>Side</th><th>Bars</th><th>Entry</th><th>Exit</th><th>Profit</th>"
      "<th>Rate</th><th class=l>Why it ended</th></tr></thead><tbody>";
  const std::size_t first = b.trades.size() > kMaxRows ? b.trades.size() - kMaxRows : 0;
  for (std::size_t i = b.trades.size(); i-- > first;) {
    const Trade& t = b.trades[i];
    html += fmt::format(
        "<tr><td>{}</td><td class=l>{}</td><td class=l>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td class={}>{}</td><td>{}</td><td class=l>{}</td></tr>",
        date_of(b, t.entry_bar), t.exit == Exit::open ? "" : date_of(b, t.exit_bar),
        t.side > 0 ? "long" : "short", t.exit_bar - t.entry_bar, price(t.entry_price),
        price(t.exit_price), t.profit > 0 ? "good" : "bad", money(t.profit), percent(t.profit_rate),
        t.exit == Exit::open ? "still open" : to_string(t.exit));
  }
  return html + "</tbody></table></div>";
}

std::string surface(const SweepResult& r) {
  const auto all = parameters(r.strategy);
  const Axes axes = axes_of(r);
  const auto rows = thinned(axes.rows, 24), columns = thinned(axes.columns, 24);
  const BestSets best = best_sets_of_cells(r, axes);
  const double scale = largest_magnitude(r, best);
  const auto& top = r.sets[r.best()].parameters;
  std::string html = fmt::format(
      "<p class=hint>{} by {} (down) and {} (across); the best is framed. A single bright cell "
      "among dull ones is chance more often than skill.</p><div class=wide><table class=heat>"
      "<thead><tr><th></th>",
      to_string(r.metric), all[axes.row].name, all[axes.column].name);
  for (const double c : columns) html += fmt::format("<th>{}</th>", short_number(c));
  html += "</tr></thead><tbody>";
  for (const double row : rows) {
    html += fmt::format("<tr><th>{}</th>", short_number(row));
    for (const double column : columns) {
      const auto found = best.find({row, column});
      if (found == best.end()) {
        html += "<td></td>";
        continue;
      }
      const double v = value(r.sets[found->second].metrics, r.metric);
      const bool is_top = row == top[axes.row] && column == top[axes.column];
      html += heat_cell(v, scale, metric_text(r.metric, v), is_top ? "best" : "");
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string best_sets(const SweepResult& r) {
  std::string html =
      "<div class=wide><table><thead><tr><th>Parameters</th><th>Sharpe</th><th>Sortino</th>"
      "<th>Growth a year</th><th>Drawdown</th><th>Trades</th><th>Wins</th></tr></thead><tbody>";
  const auto ranking = r.ranking();
  for (std::size_t i = 0; i < std::min<std::size_t>(10, ranking.size()); ++i) {
    const auto& set = r.sets[ranking[i]];
    const Metrics& m = set.metrics;
    html += fmt::format(
        "<tr><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td></tr>",
        escaped(describe(r.strategy, set.parameters)), m.sharpe, m.sortino, percent(m.cagr),
        percent(m.max_drawdown), m.trades, percent(m.win_rate, 0));
  }
  return html + "</tbody></table></div>";
}

std::string tickers(const SweepResult& r) {
  constexpr std::size_t kMaxRows = 500;
  std::string html = fmt::format(
      "<p class=hint>{}</p><div class=\"wide tall\"><table><thead><tr><th>Ticker</th>"
      "<th class=l>With</th><th>Sharpe</th><th>Sortino</th><th>Growth a year</th><th>Drawdown</th>"
      "<th>Trades</th><th>Wins</th></tr></thead><tbody>",
      r.sets.size() > 1 ? "Each with the set that did best on it: a choice made afterwards."
                        : "Each has an account of its own.");
  for (std::size_t i = 0; i < std::min(kMaxRows, r.tickers.size()); ++i) {
    const TickerResult& one = r.tickers[i];
    const Metrics& m = one.metrics;
    html += fmt::format(
        "<tr><td>{}</td><td class=l>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>",
        escaped(one.ticker), escaped(describe(r.strategy, r.sets[one.best].parameters)), m.sharpe,
        m.sortino, percent(m.cagr), percent(m.max_drawdown), m.trades, percent(m.win_rate, 0));
  }
  html += "</tbody></table></div>";
  if (r.tickers.size() > kMaxRows)
    html += fmt::format("<p class=hint>The first {} of {}.</p>", kMaxRows, r.tickers.size());
  return html;
}

std::string windows(const WalkForward& w, Strategy strategy, const Trading&) {
  std::string html =
      "<div class=\"wide tall\"><table><thead><tr><th>Traded from</th><th class=l>With</th>"
      "<th>Sharpe before</th><th>Sharpe traded</th><th>Growth traded</th><th>Drawdown</th>"
      "<th>Trades</th></tr></thead><tbody>";
  const std::int64_t first = w.windows.front().traded.first - 1;
  for (const auto& window : w.windows) {
    const auto at = static_cast<std::size_t>(window.traded.first - first);
    const Metrics& m = window.out_of_sample;
    html += fmt::format(
        "<tr><td>{}</td><td class=l>{}</td><td>{:.2f}</td><td class={}>{:.2f}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>",
        w.days.empty() ? fmt::format("bar {}", window.traded.first) : to_date(w.days[at]),
        escaped(describe(strategy, window.parameters)), window.in_sample.sharpe,
        m.sharpe >= 0 ? "good" : "bad", m.sharpe, percent(m.cagr), percent(m.max_drawdown),
        m.trades);
  }
  return html + "</tbody></table></div>";
}

}  // namespace sluice::market::page
