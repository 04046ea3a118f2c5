// sluice market risk and portfolio.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "cli/market/market_request.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kRiskExamples =
    "  sluice market risk --in prices.csv\n"
    "  sluice market risk --in all.csv --by ticker --column close --json\n"
    "  sluice market risk --in returns.csv --returns --benchmark SPY --cutoff 0.01";
constexpr std::string_view kPortfolioExamples =
    "  sluice market portfolio --in prices.csv\n"
    "  sluice market portfolio --in prices.csv --goal target_return --value 0.2 --upper 0.25\n"
    "  sluice market portfolio --in all.csv --by ticker --covariance ledoit_wolf --json\n"
    "  sluice market portfolio --in prices.csv --goal frontier --points 10\n"
    "  sluice market portfolio --in prices.csv --sector tech:AAPL,GOOG::0.3 --sector "
    "banks:BAC,JPM:0.1:";

constexpr std::pair<const char*, const char*> kSummary[] = {
    {"annual_return", "return/year"}, {"volatility", "volatility"}, {"sharpe", "Sharpe"},
    {"sortino", "Sortino"},           {"calmar", "Calmar"},         {"max_drawdown", "drawdown"},
    {"var_historical", "VaR"},        {"cvar_historical", "CVaR"}};

// Takes the series called `name` out of `all`.
Json taken(Json& all, const std::string& name) {
  if (!all.contains(name)) {
    std::string known;
    for (const auto& item : all.items()) known += (known.empty() ? "" : ", ") + item.key();
    throw Error(Code::invalid_argument,
                "--benchmark " + name + ": no such series; there are " + known);
  }
  require(all.size() > 1,
          "--benchmark " + name + ": it is the only series; name others by --column");
  Json one = all[name];
  all.erase(name);
  return one;
}

void print_covariance(const Json& answer, std::ostream& out) {
  if (!answer.contains("covariance")) return;
  std::vector<std::string> header{"covariance"};
  for (const auto& item : answer["series"].items()) header.push_back(item.key());
  std::vector<std::vector<std::string>> rows;
  for (const Json& row : answer["covariance"]) {
    rows.push_back({header[rows.size() + 1]});
    for (const Json& value : row) rows.back().push_back(shown(value));
  }
  out << "\n";
  print_table(out, header, rows);
}

void print_metrics(const Json& series, std::ostream& out) {
  std::vector<std::vector<std::string>> rows;
  if (series.size() == 1) {
    for (const auto& item : series.begin()->items())
      rows.push_back({item.key(), shown(item.value())});
    return print_table(out, {"", series.begin().key()}, rows);
  }
  std::vector<std::string> header{"series"};
  for (const auto& [_, title] : kSummary) header.emplace_back(title);
  for (const auto& item : series.items()) {
    rows.push_back({item.key()});
    for (const auto& [field, _] : kSummary) rows.back().push_back(shown(item.value()[field]));
  }
  print_table(out, header, rows);
}

void print_frontier(const Json& points, std::ostream& out) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& point : points) {
    std::string largest = "-";
    double highest = 0;
    for (const auto& item : point["weights"].items())
      if (item.value().get<double>() > highest) {
        highest = item.value().get<double>();
        largest = fmt::format("{} {:.1f} %", item.key(), highest * 100);
      }
    rows.push_back({std::to_string(rows.size() + 1), shown(point["expected_return"]),
                    shown(point["volatility"]), shown(point["sharpe"]), largest});
  }
  print_table(out, {"point", "return", "volatility", "Sharpe", "largest weight"}, rows);
}

void print_portfolio(const Json& answer, std::ostream& out) {
  if (answer.contains("frontier")) return print_frontier(answer["frontier"], out);
  std::vector<std::vector<std::string>> rows;
  for (const char* field : {"expected_return", "volatility", "sharpe", "cvar"})
    if (answer.contains(field)) rows.push_back({field, shown(answer[field])});
  print_table(out, {"goal", answer.value("goal", "")}, rows);
  out << "\n";
  constexpr double kNothing = 1e-9;
  std::vector<std::pair<double, std::string>> weights;
  for (const auto& item : answer["weights"].items())
    if (std::fabs(item.value().get<double>()) > kNothing)
      weights.emplace_back(-item.value().get<double>(), item.key());
  std::ranges::sort(weights);
  rows.clear();
  for (const auto& [weight, name] : weights) {
    rows.push_back({name, fmt::format("{:.4f}", -weight)});
    if (answer.contains("risk_shares")) rows.back().push_back(shown(answer["risk_shares"][name]));
  }
  if (answer.contains("risk_shares"))
    print_table(out, {"asset", "weight", "share of risk"}, rows);
  else
    print_table(out, {"asset", "weight"}, rows);
}

void add_risk_flags(RequestFlags& f) {
  f.number("periods-per-year", "bars in a year (252)");
  f.number("risk-free", "risk-free return per bar (0)");
  f.number("required-return", "required return per bar, for Sortino (0)");
  f.number("ddof", "delta degrees of freedom of the volatility (1)");
  f.number("cutoff", "fraction of the worst returns, for VaR and CVaR (0.05)");
  f.text("convention", "convention of VaR: empyrical (default; a return) or quantlib (a loss)");
  f.on("simulate", "VaR and CVaR by Monte Carlo too");
  f.number("horizon", "horizon of the simulation, in bars (1)");
  f.number("paths", "paths of the simulation (1048576)");
  f.number("seed", "seed of the simulation (42)");
  f.text("covariance", "add a covariance matrix: sample, ledoit_wolf or ewma");
  f.number("span", "span of ewma, in bars (180)");
}

void add_portfolio_flags(RequestFlags& f) {
  f.text("goal",
         "max_sharpe (default), min_volatility, target_return, target_risk, "
         "max_quadratic_utility, risk_parity, min_cvar, cvar_target_return, cvar_target_risk, "
         "frontier");
  f.number("value", "target value, or the risk aversion");
  f.number("risk-free", "risk-free return a year (0)");
  f.number("periods-per-year", "bars in a year (252)");
  f.text("covariance", "sample (default), ledoit_wolf or ewma");
  f.number("span", "span of ewma, in bars (180)");
  f.list("mean", "expected returns a year, instead of the past growth");
  f.numbers("lower", "minimum weight, one for all or one each (0)");
  f.numbers("upper", "maximum weight (1)");
  f.number("sum", "sum of all weights (1); 0 is market neutral");
  f.list("held", "the weights now, for --turnover");
  f.number("turnover", "upper limit of the sum of |weight - held|");
  f.number("leverage", "upper limit of the sum of |weight|");
  f.number("l2", "L2 penalty of the weights (0)");
  f.number("beta", "confidence level of CVaR: the worst 1 - beta count (0.95)");
  f.number("points", "points of the frontier (20)");
  f.list("shares", "risk shares for risk_parity, one per asset (equal)");
}

Json read_series(const TableFlags& table, Io& io) {
  const auto csv = market::Csv::read(table.in, io.in);
  if (table.by.empty()) check_order(csv, "", io.err);  // else they are joined by date
  return series_of(csv, table);
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "tech:AAPL,GOOG:0.1:0.3"; an empty limit is none.
Json sector_from(const std::string& text) {
  const auto parts = parts_of(text, ':');
  require(parts.size() == 4 && !parts[1].empty(),
          "--sector " + text + ": expected NAME:ASSET,ASSET:MIN:MAX, MIN or MAX may be empty");
  Json sector = {{"name", parts[0]}, {"assets", parts_of(parts[1], ',')}};
  if (!parts[2].empty()) sector["min"] = numbers_from(parts[2], ',', "--sector")[0];
  if (!parts[3].empty()) sector["max"] = numbers_from(parts[3], ',', "--sector")[0];
  return sector;
}

}  // namespace

int market_risk(Args args, Io& io) {
  RequestCommand command("Return, volatility, drawdown, VaR and CVaR of series",
                         "sluice market risk");
  TableFlags table;
  std::string benchmark;
  bool returns = false;
  add_options(command.app, table);
  command.app.add_flag("--returns", returns, "the columns are returns, not prices");
  command.app.add_option("--benchmark", benchmark, "series to compare with: alpha and beta")
      ->type_name("NAME");
  add_risk_flags(command.flags);
  if (!parse(command.app, args, io, kRiskExamples)) return 0;
  if (!benchmark.empty() && !table.columns.empty() && table.by.empty())
    table.columns.push_back(benchmark);
  Json series = read_series(table, io);
  if (!benchmark.empty()) command.request["benchmark"] = taken(series, benchmark);
  command.request[returns ? "returns" : "prices"] = std::move(series);
  const Json answer = command.ask("risk", io);
  if (command.json)
    io.out << in_utf8(answer) << '\n';
  else {
    print_metrics(answer["series"], io.out);
    print_covariance(answer, io.out);
  }
  return 0;
}

int market_portfolio(Args args, Io& io) {
  RequestCommand command("Weights of assets by mean and variance, risk shares or CVaR",
                         "sluice market portfolio");
  TableFlags table;
  bool returns = false;
  add_options(command.app, table);
  command.app.add_flag("--returns", returns, "the columns are returns, not prices");
  std::vector<std::string> sectors;
  add_portfolio_flags(command.flags);
  command.app
      .add_option("--sector", sectors, "limits of the sum of the weights of a sector; repeatable")
      ->type_name("NAME:ASSET,ASSET:MIN:MAX");
  if (!parse(command.app, args, io, kPortfolioExamples)) return 0;
  command.request[returns ? "returns" : "prices"] = read_series(table, io);
  for (const auto& text : sectors) command.request["sectors"].push_back(sector_from(text));
  const Json answer = command.ask("portfolio", io);
  if (command.json)
    io.out << in_utf8(answer) << '\n';
  else
    print_portfolio(answer, io.out);
  return 0;
}

}  // namespace sluice::cli
