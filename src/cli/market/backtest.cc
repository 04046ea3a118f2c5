// sluice backtest: trading rules on past prices.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "cli/common/commands.h"
#include "cli/common/progress.h"
#include "cli/market/market_request.h"
#include "market/backtest/report/report.h"
#include "market/request/backtest_request.h"

namespace sluice::cli {

namespace {

using market::Csv;
using market::PriceHistory;

constexpr std::string_view kBacktestExamples =
    "  sluice backtest --in prices.csv\n"
    "  sluice backtest --in prices.csv --fast 5:50:5 --slow 20:200:10 --html report.html\n"
    "  sluice backtest --in all.csv --by ticker --strategy rsi --lower 20,30 --upper 70,80\n"
    "  sluice backtest --in prices.csv --fast 5:50:5 --walk-forward --in-sample 756\n"
    "The CSV has a date first and close; open, high and low are used where they are there.";

struct BacktestFlags {
  std::string in = "-", by, column = "close", html;
  bool walk_forward = false, anchored = false;
  Json parameters = Json::object(), trading = Json::object(), walk = Json::object();
};

void add_trading_flags(RequestFlags f) {
  f.number("initial-cash", "initial cash of each account (100000)");
  f.text("sides", "long (default), short or both");
  f.text("fill", "next_open (default) or next_close");
  f.number("fee", "fee of a fill, a fraction of its value (0.0005)");
  f.number("fixed-fee", "fixed fee of a fill, in money (0)");
  f.number("slippage", "slippage of a fill, a fraction of the price (0.0005)");
  f.text("sizing", "fraction (default), cash or volatility");
  f.number("fraction", "fraction of equity to stake (1)");
  f.number("cash", "cash to stake, with --sizing cash (10000)");
  f.number("target-volatility", "yearly volatility to target, with --sizing volatility (0.15)");
  f.number("volatility-period", "bars of the volatility, with --sizing volatility (20)");
  f.number("max-leverage", "maximum leverage of cash and volatility sizing (1)");
  f.number("stop-loss", "distance from the entry as a fraction (0: none)");
  f.number("take-profit", "distance from the entry as a fraction (0: none)");
  f.number("periods-per-year", "bars in a year (252)");
  f.number("risk-free", "risk-free return a year (0)");
}

void add_parameter_flags(RequestFlags f) {
  std::map<std::string, std::string> all;
  for (const auto strategy : market::strategies())
    for (const auto& parameter : market::parameters(strategy))
      all.emplace(parameter.name, parameter.help);
  for (const auto& [name, help] : all) f.text(name, help, "N|N,N|FROM:TO:STEP");
}

// Missing columns stay empty.
std::vector<double> column_if_there(const Csv& csv, const std::string& name) {
  return csv.has(name) ? csv.numbers(csv.column(name)) : std::vector<double>();
}

struct PriceColumns {
  std::string close_name;
  std::vector<double> open, high, low, close;
};

PriceColumns columns_of(const Csv& csv, const std::string& close) {
  PriceColumns c{close, {}, {}, {}, csv.numbers(csv.column(close))};
  if (close != "close") return c;  // the others belong to the close
  c.open = column_if_there(csv, "open");
  c.high = column_if_there(csv, "high");
  c.low = column_if_there(csv, "low");
  if (c.high.empty() || c.low.empty()) c.high = c.low = {};
  return c;
}

void add_price(const Csv& csv, std::size_t row, const std::string& name,
               const std::vector<double>& from, std::vector<double>& to) {
  if (from.empty()) return;
  if (!(std::isfinite(from[row]) && from[row] > 0))
    csv.fail(row, "column " + name + " holds no positive price");
  to.push_back(from[row]);
}

void add_bar(const Csv& csv, std::size_t row, const PriceColumns& c, PriceHistory& to) {
  add_price(csv, row, c.close_name, c.close, to.close);
  add_price(csv, row, "open", c.open, to.open);
  add_price(csv, row, "high", c.high, to.high);
  add_price(csv, row, "low", c.low, to.low);
  if (!to.high.empty() && to.high.back() < to.low.back())
    csv.fail(row, "the high is under the low");
}

// `before`: the date of the same owner's row above.
void add_date(const Csv& csv, std::size_t row, std::string_view& before, PriceHistory& to) {
  const auto text = csv.text(row, 0);
  try {
    const market::Stamp stamp = market::stamp_from(text);
    to.days.push_back(stamp.day);
    to.intraday = to.intraday || stamp.timed;
  } catch (const Error& e) {
    csv.fail(row, std::string(e.reason()));
  }
  if (text <= before && text.size() == before.size())
    csv.fail(row, fmt::format("{} comes after {}: the oldest row must be the first",
                              in_quotes(text), in_quotes(before)));
  before = text;
}

std::vector<PriceHistory> histories_of(const Csv& csv, const BacktestFlags& flags) {
  require(csv.rows() > 0, csv.name() + " has no rows");
  const PriceColumns columns = columns_of(csv, flags.column);
  const bool dated = market::looks_dated(csv.text(0, 0));
  const std::size_t owner = flags.by.empty() ? 0 : csv.column(flags.by);
  std::vector<PriceHistory> all;
  std::vector<std::string_view> dates;
  std::map<std::string_view, std::size_t> number;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const auto name = flags.by.empty() ? std::string_view(csv.name()) : csv.text(row, owner);
    const auto [entry, is_new] = number.emplace(name, all.size());
    if (is_new) all.push_back({.ticker = std::string(name)}), dates.emplace_back();
    PriceHistory& one = all[entry->second];
    add_bar(csv, row, columns, one);
    if (dated) add_date(csv, row, dates[entry->second], one);
  }
  return all;
}

void add_flags(RequestCommand& command, BacktestFlags& flags) {
  auto& app = command.app;
  app.add_option("--in", flags.in, "CSV file with a header; - (default) is standard input")
      ->type_name("FILE");
  app.add_option("--by", flags.by, "column with the name of each row's ticker: one account each")
      ->type_name("NAME");
  app.add_option("--column", flags.column, "column of prices (close)")->type_name("NAME");
  app.add_option("--html", flags.html, "write the report to this file: a self-contained page")
      ->type_name("FILE");
  command.flags.text("strategy", "sma_cross (default), ema_cross, rsi, bollinger, momentum, swing");
  command.flags.text("metric", "metric that decides which set is best (sharpe)");
  command.flags.text("ticker", "ticker whose account is shown (the first)");
  add_parameter_flags({app, flags.parameters});
  add_trading_flags({app, flags.trading});
  app.add_flag("--walk-forward", flags.walk_forward,
               "choose parameters on the past and trade the bars after it, window by window");
  RequestFlags walk(app, flags.walk);
  walk.number("in-sample", "bars to choose parameters on (756)");
  walk.number("out-of-sample", "bars to trade (126)");
  walk.on("anchored", "choose on all bars so far");
}

market::StudyRequest request_of(RequestCommand& command, const BacktestFlags& flags, Io& io) {
  Json& request = command.request;
  request["parameters"] = flags.parameters;
  request["trading"] = flags.trading;
  require(flags.walk_forward || flags.walk.empty(),
          "--in-sample, --out-of-sample and --anchored are for --walk-forward");
  if (flags.walk_forward) request["walk_forward"] = flags.walk;
  market::StudyRequest made;
  market::Fields fields(request);
  read_rules(fields, made);
  made.sweep.device = device_preference(command.compute);
  made.histories = histories_of(Csv::read(flags.in, io.in), flags);
  settle(made);
  return made;
}

void print(const market::Study& study, const market::StudyRequest& request, std::ostream& out) {
  out << to_table(study.shown);
  if (study.sweep.sets.size() > 1 || study.sweep.tickers.size() > 1)
    out << "\n" << to_table(study.sweep);
  if (study.deflated_sharpe) out << "\n" << describe(*study.deflated_sharpe) << "\n";
  if (study.walk_forward) out << "\n" << to_table(*study.walk_forward, request.sweep.strategy);
}

void write_page(const std::string& path, const market::Study& study) {
  std::ofstream file(path, std::ios::binary);
  file << to_page(study);
  if (!file.flush()) throw Error(Code::unavailable, "cannot write " + path);
}

}  // namespace

int backtest(Args args, Io& io) {
  RequestCommand command("Try trading rules on past prices", "sluice backtest");
  BacktestFlags flags;
  add_flags(command, flags);
  if (!parse(command.app, args, io, kBacktestExamples)) return 0;
  const auto request = request_of(command, flags, io);
  const auto compute = make_compute(command.compute, io.environment);
  const auto study = [&] {
    Progress progress(io.err);
    return run_study(*compute, request,
                     [&](double share, const std::string& what) { progress.show(share, what); });
  }();
  if (command.compute.explain) io.err << "ran: " << study.sweep.ran_on << "\n";
  if (!flags.html.empty()) write_page(flags.html, study);
  if (command.json)
    io.out << in_utf8(to_json(study)) << '\n';
  else
    print(study, request, io.out);
  return 0;
}

}  // namespace sluice::cli
