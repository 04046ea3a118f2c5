// sluice market: indicators of a table of prices. Each indicator is a row of the table in
// market/indicators/indicator.h; nothing here knows one of them by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <ostream>

#include "base/ascii.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/common/actions.h"
#include "cli/common/commands.h"
#include "cli/common/report.h"
#include "cli/market/compute_flags.h"
#include "cli/market/market_request.h"
#include "market/indicators/indicator.h"
#include "market/indicators/run_series.h"
#include "market/input/csv.h"
#include "market/request/request.h"

namespace sluice::cli {

namespace {

using market::Csv;
using market::Indicator;
using market::Input;

struct MarketFlags {
  std::string in = "-", out, column, by;
  std::vector<std::string> columns;  // high=H
  std::vector<std::optional<double>> parameters;
  bool json = false;
  ComputeFlags compute;
};

// ---- help ------------------------------------------------------------------------------

constexpr Action kCalculations[] = {
    {"option", "prices, Greeks and implied volatilities of options", market_option},
    {"montecarlo", "prices of path-dependent options by simulation", market_montecarlo},
    {"risk", "return, volatility, drawdown, VaR and CVaR of series", market_risk},
    {"portfolio", "weights by mean and variance, risk shares or CVaR", market_portfolio},
};

constexpr std::size_t kNameWidth = 24;  // of the longest indicator, and spaces

std::string summary_of(const Indicator& one) {
  std::string parameters;
  for (const auto& parameter : one.parameters)
    parameters += fmt::format("{}{} {:g}", parameters.empty() ? " (" : ", ", parameter.name,
                              parameter.default_value);
  return std::string(one.summary) + (parameters.empty() ? "" : parameters + ")");
}

int list(Io& io) {
  Report report(io.out, terminal_behind(io.out));
  const auto row = [&](std::string_view name, std::string_view text) {
    const auto mark = fmt::format("  {:<{}}", name, kNameWidth - 2);
    report.item(paint(mark, Ink::dim, report.pen()), kNameWidth, text);
  };
  report.line("usage: sluice market <what> [options]");
  report.heading("", "calculations");
  for (const Action& calculation : kCalculations) row(calculation.name, calculation.help);
  std::string_view group;
  for (const Indicator& one : market::indicators()) {
    if (one.group != group) report.heading("", group = one.group);
    row(ascii_lower(one.name), summary_of(one));
  }
  report.line("");
  report.line("sluice market <what> --help explains one, e.g. sluice market rsi --help");
  return 0;
}

std::string examples(const Indicator& one) {
  const std::string name = ascii_lower(one.name);
  const std::string period =
      one.parameters.empty()
          ? std::string()
          : fmt::format(" --{} {:g}", one.parameters[0].name, one.parameters[0].default_value);
  return fmt::format(
      "  sluice market {0} --in prices.csv{1}\n"
      "  sluice market {0} --in all.csv --by ticker --json\n"
      "  cat prices.csv | sluice market {0} --device cpu --explain > {0}.csv",
      name, period);
}

void add_parameters(CLI::App& app, const Indicator& one, MarketFlags& flags) {
  flags.parameters.resize(one.parameters.size());
  for (std::size_t i = 0; i < one.parameters.size(); ++i) {
    const auto& parameter = one.parameters[i];
    std::string names = "--" + std::string(parameter.name);
    if (parameter.name == "timeperiod") names += ",--period";
    app.add_option(names, flags.parameters[i],
                   fmt::format("{} ({:g}; {:g} to {:g})", parameter.help, parameter.default_value,
                               parameter.min, parameter.max));
  }
}

void add_flags(CLI::App& app, const Indicator& one, MarketFlags& flags) {
  app.add_option("--in", flags.in, "CSV file with a header; - (default) is standard input")
      ->type_name("FILE");
  app.add_option("--out", flags.out, "file to write; else standard output")->type_name("FILE");
  if (one.any_price)
    app.add_option("--column", flags.column, "column to use (close)")->type_name("NAME");
  app.add_option("--columns", flags.columns, "other names of input columns: high=H low=L")
      ->type_name("INPUT=NAME");
  app.add_option("--by", flags.by, "column with the name of each row's series")->type_name("NAME");
  app.add_flag("--json", flags.json, "JSON instead of CSV");
  add_parameters(app, one, flags);
  add_options(app, flags.compute);
}

// ---- columns ---------------------------------------------------------------------------

// The name that the file has for `input`.
std::string column_name(const MarketFlags& flags, const Indicator& one, Input input) {
  if (one.any_price && !flags.column.empty()) return flags.column;
  const std::string_view name = to_string(input);
  for (const std::string& given : flags.columns)
    if (const auto at = given.find('='); ascii_lower(given.substr(0, at)) == name)
      return given.substr(at + 1);
  return std::string(name);
}

void check_columns(const MarketFlags& flags, const Indicator& one) {
  for (const std::string& given : flags.columns) {
    const auto at = given.find('=');
    const auto is_it = [&](Input input) {
      return ascii_lower(given.substr(0, at)) == to_string(input);
    };
    require(
        at != std::string::npos && at + 1 < given.size() && std::ranges::any_of(one.inputs, is_it),
        fmt::format("--columns {}: expected INPUT=NAME, and the inputs of {} are {}", given,
                    one.name,
                    fmt::join(
                        [&] {
                          std::vector<std::string_view> names;
                          for (const Input input : one.inputs) names.push_back(to_string(input));
                          return names;
                        }(),
                        ", ")));
  }
}

// Rows of one owner, in the order of the file.
struct Series {
  std::string owner;
  std::vector<std::size_t> rows;
};

std::vector<Series> series_of(const Csv& csv, const std::string& by) {
  if (by.empty()) {
    Series all;
    all.rows.resize(csv.rows());
    std::iota(all.rows.begin(), all.rows.end(), std::size_t{0});
    return {all};
  }
  const std::size_t column = csv.column(by);
  std::map<std::string_view, std::size_t> number;
  std::vector<Series> found;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string_view owner = csv.text(row, column);
    const auto [entry, is_new] = number.emplace(owner, found.size());
    if (is_new) found.push_back({std::string(owner), {}});
    found[entry->second].rows.push_back(row);
  }
  return found;
}

using Columns = std::vector<std::vector<double>>;

// ---- the calculation -------------------------------------------------------------------

// The rows of one owner as a series.
market::IndicatorSeries gathered(const Series& series, const Columns& in) {
  market::IndicatorSeries one{series.owner, {}, {}};
  for (const auto& column : in) {
    one.in.emplace_back();
    for (const std::size_t row : series.rows) one.in.back().push_back(column[row]);
  }
  return one;
}

Columns calculate(const Csv& csv, const Indicator& one, const MarketFlags& flags, Io& io) {
  std::vector<double> values;
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    values.push_back(flags.parameters[i].value_or(one.parameters[i].default_value));
  const market::Plan plan = one.plan(values);
  Columns in;
  for (const Input input : one.inputs)
    in.push_back(csv.numbers(csv.column(column_name(flags, one, input))));
  const auto series = series_of(csv, flags.by);
  std::vector<market::IndicatorSeries> all;
  for (const Series& each : series) all.push_back(gathered(each, in));
  const auto compute = make_compute(flags.compute, io.environment);
  for (const auto& outcome : run_series(*compute, plan, all, device_preference(flags.compute)))
    explain(flags.compute, outcome, io.err);
  Columns out(one.outputs.size(), std::vector<double>(csv.rows()));
  for (std::size_t s = 0; s < series.size(); ++s)
    for (std::size_t c = 0; c < out.size(); ++c)
      for (std::size_t i = 0; i < series[s].rows.size(); ++i)
        out[c][series[s].rows[i]] = all[s].out[c][i];
  return out;
}

// ---- output ----------------------------------------------------------------------------

void write_csv(const Csv& csv, const Indicator& one, std::size_t by, const Columns& values,
               std::ostream& out) {
  std::string text;
  market::append_text(text, csv.header()[0]);
  const bool owner = by != 0;  // else it is the first column already
  if (owner) market::append_text(text += ',', csv.header()[by]);
  for (std::size_t i = 0; i < values.size(); ++i) text += ',' + market::output_name(one, i);
  text += '\n';
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    market::append_text(text, csv.text(row, 0));
    if (owner) market::append_text(text += ',', csv.text(row, by));
    for (const auto& column : values) market::append_number(text += ',', column[row]);
    text += '\n';
    if (text.size() < 1 << 16) continue;
    out << text;
    text.clear();
  }
  out << text;
}

// A column's name among the names that the answer has anyway.
std::string key_of(const std::string& column) {
  return column == "indicator" || column == "outputs" ? "column " + column : column;
}

nlohmann::json json_of(const Csv& csv, const Indicator& one, std::size_t by,
                       const Columns& values) {
  nlohmann::json json{{"indicator", one.name}};
  const auto texts = [&](std::size_t column) {
    auto list = nlohmann::json::array();
    for (std::size_t row = 0; row < csv.rows(); ++row) list.push_back(csv.text(row, column));
    return list;
  };
  json[key_of(csv.header()[0])] = texts(0);
  if (by != 0) json[key_of(csv.header()[by])] = texts(by);
  for (std::size_t i = 0; i < values.size(); ++i)
    json["outputs"][market::output_name(one, i)] = values[i];
  return json;
}

void write(const Csv& csv, const Indicator& one, const MarketFlags& flags, const Columns& values,
           std::ostream& out) {
  const std::size_t by = flags.by.empty() ? 0 : csv.column(flags.by);
  if (flags.json)
    out << in_utf8(json_of(csv, one, by, values)) << '\n';
  else
    write_csv(csv, one, by, values, out);
}

int run_indicator(const Indicator& one, Args args, Io& io) {
  const std::string name = ascii_lower(one.name);
  CLI::App app(std::string(one.summary), "sluice market " + name);
  MarketFlags flags;
  add_flags(app, one, flags);
  if (!parse(app, args, io, examples(one))) return 0;
  check_columns(flags, one);
  const Csv csv = Csv::read(flags.in, io.in);
  check_order(csv, flags.by, io.err);
  const Columns values = calculate(csv, one, flags, io);
  if (flags.out.empty()) {
    write(csv, one, flags, values, io.out);
    return 0;
  }
  std::ofstream file(flags.out, std::ios::binary);
  write(csv, one, flags, values, file);
  if (!file.flush()) throw Error(Code::internal, "cannot write " + flags.out);
  return 0;
}

const Indicator& indicator_named(std::string_view name) {
  for (const Indicator& one : market::indicators())
    if (ascii_lower(one.name) == ascii_lower(name)) return one;
  std::vector<std::string> known;
  for (const Action& calculation : kCalculations) known.emplace_back(calculation.name);
  for (const Indicator& one : market::indicators()) known.push_back(ascii_lower(one.name));
  const std::vector<std::string_view> words(known.begin(), known.end());
  throw Error(Code::not_found,
              fmt::format("sluice market has no {}{}; there are {}", in_quotes(name),
                          did_you_mean(ascii_lower(name), words), fmt::join(words, ", ")));
}

}  // namespace

int market_command(Args args, Io& io) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h") return list(io);
  for (const Action& calculation : kCalculations)
    if (calculation.name == args[0]) return calculation.run(args.subspan(1), io);
  return run_indicator(indicator_named(args[0]), args.subspan(1), io);
}

}  // namespace sluice::cli
