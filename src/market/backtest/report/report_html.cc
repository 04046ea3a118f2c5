#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "market/backtest/report/report_parts.h"

namespace sluice::market {
namespace page {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string signed_number(double value, int digits) {
  const std::string size = fmt::format("{:.{}f}", std::abs(value), digits);
  const bool nothing = size.find_first_not_of("0.") == std::string::npos;  // rounded to zero
  return (value < 0 && !nothing ? "\u2212" : "") + size;
}

std::string percent(double fraction, int digits) {
  return signed_number(100 * fraction, digits) + " %";
}

std::string money(double value) {
  std::string text = fmt::format("{:.0f}", std::abs(value));
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return (value <= -0.5 ? "\u2212" : "") + text;
}

std::string tile(std::string_view name, const std::string& value, const std::string& note,
                 std::string_view tone) {
  return fmt::format("<div class=tile><span>{}</span><b class=\"{}\">{}</b><span>{}</span></div>",
                     name, tone, value, note);
}

namespace {

std::string pair(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
}

std::string stake(const Trading& t) {
  switch (t.sizing) {
    case Sizing::fraction: return percent(t.fraction, 0) + " of equity";
    case Sizing::cash: return money(t.cash);
    case Sizing::volatility: return percent(t.target_volatility, 0) + " volatility a year";
  }
  return "";
}

std::string or_none(double fraction) { return fraction > 0 ? percent(fraction) : "none"; }

}  // namespace

std::string settings(const Backtest& b) {
  static constexpr const char* kSides[] = {"long only", "short only", "long and short"};
  const Trading& t = b.options.trading;
  std::string html = "<dl>";
  html += pair("Strategy", std::string(to_string(b.options.strategy)));
  const auto all = parameters(b.options.strategy);
  for (std::size_t i = 0; i < all.size(); ++i)
    html += pair(all[i].name, fmt::format("{:g}", b.options.parameters[i]));
  html += pair("Sides", kSides[static_cast<int>(t.sides)]);
  html +=
      pair("Filled at", t.fill == Fill::next_open ? "the next bar's open" : "the next bar's close");
  html += pair("Stake", stake(t));
  html += pair("Fee of a fill",
               percent(t.fee, 3) + (t.fixed_fee > 0 ? fmt::format(" + {:g}", t.fixed_fee) : ""));
  html += pair("Slippage", percent(t.slippage, 3));
  html += pair("Stop loss", or_none(t.stop_loss));
  html += pair("Take profit", or_none(t.take_profit));
  html += pair("Initial cash", money(t.initial_cash));
  html += pair("Risk-free rate", percent(t.risk_free));
  html += pair("Bars a year", fmt::format("{:g}", t.periods_per_year));
  return html + "</dl>";
}

// Warns of a fall or rise so large within one bar that it is a split more often than news.
std::string split_warning(const Backtest& b) {
  for (std::size_t i = 2; i < b.hold.size(); ++i) {
    const double change = b.hold[i] / b.hold[i - 1] - 1;
    if (change > -0.4 && change < 0.7) continue;
    return fmt::format(
        "The price moved by {} within one bar ({}). If that was a split, the prices are not "
        "adjusted, and this report is wrong.",
        percent(change, 0), b.days.empty() ? fmt::format("bar {}", i) : to_date(b.days[i]));
  }
  return "";
}

std::string caveats(const Report& report) {
  const Backtest& b = *report.backtest;
  std::string html = "<ul>";
  const auto item = [&](const std::string& text) { html += "<li>" + text + "</li>"; };
  item("A signal of one bar\u2019s close is filled on the next bar; no later price is used.");
  item("Fills always happen, in full, and do not move the price.");
  if (b.options.trading.stop_loss > 0 || b.options.trading.take_profit > 0)
    item(
        "Stops are judged by a bar\u2019s high and low; if both are reached in one bar the loss "
        "counts.");
  if (b.options.trading.sides != Sides::long_only)
    item("Lending fees and margin calls of short positions are not modelled.");
  item(
      "Interest on idle cash, dividends and taxes are not modelled unless they are in the "
      "prices.");
  if (b.metrics.trades < 30)
    item(fmt::format("{} trades are few: the figures rest on little.", b.metrics.trades));
  if (report.sweep && report.sweep->sets.size() > 1 && !report.walk_forward)
    item(
        "The parameters were chosen on the bars they are shown on. Only a walk-forward shows "
        "what such a choice is worth afterwards.");
  item("What worked in the past may not work again.");
  return html + "</ul>";
}

namespace {

std::string tiles(const Backtest& b) {
  const Metrics &m = b.metrics, &h = b.hold_metrics;
  const auto held = [](const std::string& text) { return "held: " + text; };
  const auto number = [](double v) { return signed_number(v, 2); };
  std::string html = "<div class=tiles>";
  html += tile("Final equity", money(m.final_equity), held(money(h.final_equity)));
  html += tile("Growth a year", percent(m.cagr), held(percent(h.cagr)),
               m.cagr >= h.cagr ? "good" : "bad");
  html += tile("Sharpe ratio", number(m.sharpe), held(number(h.sharpe)),
               m.sharpe >= h.sharpe ? "good" : "bad");
  html += tile("Sortino ratio", number(m.sortino), held(number(h.sortino)));
  html += tile("Largest drawdown", percent(m.max_drawdown), held(percent(h.max_drawdown)),
               m.max_drawdown <= h.max_drawdown ? "good" : "bad");
  html += tile("Trades", fmt::format("{}", m.trades), percent(m.win_rate, 0) + " won");
  html += tile("Profit factor", std::isfinite(m.profit_factor) ? number(m.profit_factor) : "\u221e",
               "profits / losses");
  html += tile("In the market", percent(m.exposure, 0),
               fmt::format("turnover {:.1f} a year", m.turnover));
  return html + "</div>";
}

std::string section(std::string_view title, const std::string& body,
                    std::string_view classes = "") {
  return fmt::format("<section class=\"{}\"><h2>{}</h2>{}</section>", classes, title, body);
}

std::string walk_forward_part(const Report& r) {
  const WalkForward& w = *r.walk_forward;
  const std::string summary = fmt::format(
      "<p class=hint>In each window the parameters that did best before it were traded in it: "
      "Sharpe ratio {:.2f}, growth {} a year, drawdown {}, {} trades{}.</p>",
      w.metrics.sharpe, percent(w.metrics.cagr), percent(w.metrics.max_drawdown), w.metrics.trades,
      std::isfinite(w.efficiency)
          ? fmt::format("; {:.0f} % of the growth that the choice had promised", 100 * w.efficiency)
          : "");
  return section("Walk-forward",
                 summary + windows(w, r.backtest->options.strategy, r.backtest->options.trading));
}

std::string subtitle(const Backtest& b) {
  std::string text = fmt::format("{} \u00b7 {}", to_string(b.options.strategy),
                                 escaped(describe(b.options.strategy, b.options.parameters)));
  if (!b.days.empty())
    text += fmt::format(" \u00b7 {} to {}", to_date(b.days.front()), to_date(b.days.back()));
  return text + fmt::format(" \u00b7 {} bars", b.equity.size() - 1);
}

}  // namespace
}  // namespace page

std::string to_html(const Report& report) {
  require(report.backtest != nullptr, "a report needs a backtest");
  using namespace page;
  const Backtest& b = *report.backtest;
  const std::string name = escaped(b.ticker.empty() ? "Backtest" : b.ticker);
  std::string body = fmt::format("<header><h1>{}</h1><p>{}</p></header>", name, subtitle(b));
  if (const std::string warning = split_warning(b); !warning.empty())
    body +=
        section("Are these prices adjusted?", "<p style=\"margin:0\">" + warning + "</p>", "warn");
  body += tiles(b);
  if (report.sweep && report.sweep->sets.size() > 1)
    body += section("Deflated Sharpe ratio",
                    "<p style=\"margin:0\">" + describe(deflated_sharpe(*report.sweep, b)) + "</p>",
                    "warn");
  body += section("Equity", equity_chart(b));
  body += section("Drawdown", drawdown_chart(b));
  body += section("Months, in %", months(b));
  if (report.walk_forward) body += walk_forward_part(report);
  if (report.sweep && report.sweep->sets.size() > 1) {
    body += section("Parameters", surface(*report.sweep));
    body += section(fmt::format("Best of {} sets{}", report.sweep->sets.size(),
                                report.sweep->tickers.size() > 1 ? ", means of all tickers" : ""),
                    best_sets(*report.sweep));
  }
  if (report.sweep && report.sweep->tickers.size() > 1)
    body +=
        section(fmt::format("{} tickers", report.sweep->tickers.size()), tickers(*report.sweep));
  body += section("Trades", trades_table(b));
  body += section("Settings", settings(b));
  body += section("What this leaves out", caveats(report));
  return fmt::format(
      "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\"><title>{} backtest</title><style>{}</style>"
      "</head><body><main>{}<footer>Made by Sluice. No advice.</footer></main><script>{}</script>"
      "</body></html>\n",
      name, kStyle, body, kScript);
}

}  // namespace sluice::market
