#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "cli/common/draw.h"
#include "cli/market/market_request.h"
#include "market/backtest/engine/history.h"
#include "market/request/request.h"

namespace sluice::cli {

namespace {

std::string field_of(std::string flag) {
  std::ranges::replace(flag, '-', '_');
  return flag;
}

std::string names_of(const std::string& flag) {
  const std::string field = field_of(flag);
  return "--" + flag + (field == flag ? "" : ",--" + field);
}

double number_from(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size())
    throw CLI::ConversionError("'" + std::string(text) + "' is not a number");
  return value;
}

std::vector<double> numbers_in(std::string_view text, char separator) {
  std::vector<double> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    numbers.push_back(number_from(text.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

// The keys of the first column in order: dates written same_length sort as texts.
std::map<std::string_view, std::size_t> row_indices(const market::Csv& csv) {
  std::map<std::string_view, std::size_t> indices;
  bool same_length = true;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const auto key = csv.text(row, 0);
    same_length = same_length && key.size() == csv.text(0, 0).size();
    indices.emplace(key, indices.size());
  }
  if (!same_length) return indices;
  std::size_t next = 0;
  for (auto& [_, index] : indices) index = next++;
  return indices;
}

// Each series gets a value for each row's key, however few it has.
void require_small_join(const market::Csv& csv, std::size_t owner, std::size_t dates) {
  std::set<std::string_view> tickers;
  for (std::size_t row = 0; row < csv.rows(); ++row) tickers.insert(csv.text(row, owner));
  const std::size_t max_values = market::Csv::max_bytes() / sizeof(double);
  require(tickers.size() <= max_values / dates,
          fmt::format("{}: a table of {} series and {} dates is too large: at most {} values",
                      csv.name(), tickers.size(), dates, max_values));
}

Json joined(const market::Csv& csv, const TableFlags& flags) {
  const std::string name = flags.columns.empty() ? "close" : flags.columns[0];
  require(flags.columns.size() <= 1, "--by takes one --column");
  const std::size_t owner = csv.column(flags.by);
  const auto values = csv.numbers(csv.column(name));
  const auto indices = row_indices(csv);
  require_small_join(csv, owner, indices.size());
  std::map<std::string_view, std::vector<double>> found;
  std::vector<std::string_view> order;
  std::map<std::string_view, std::vector<bool>> seen;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const auto series_name = csv.text(row, owner);
    const auto at = indices.at(csv.text(row, 0));
    auto& series = found[series_name];
    if (series.empty()) {
      series.assign(indices.size(), double{NAN});
      seen[series_name].assign(indices.size(), false);
      order.push_back(series_name);
    }
    if (seen[series_name][at])
      csv.fail(row, fmt::format("{} has two rows for {}", series_name, csv.text(row, 0)));
    seen[series_name][at] = true;
    series[at] = values[row];
  }
  Json all = Json::object();
  auto& series = all.get_ref<Json::object_t&>();
  for (const auto name_of_series : order)
    series.emplace_back(std::string(name_of_series), found[name_of_series]);
  return all;
}

}  // namespace

void RequestFlags::number(const std::string& flag, const std::string& help) {
  app_.add_option_function<double>(
          names_of(flag),
          [to = &to_, field = field_of(flag)](double value) { (*to)[field] = value; }, help)
      ->type_name("N");
}

void RequestFlags::text(const std::string& flag, const std::string& help, const std::string& type) {
  app_.add_option_function<std::string>(
          names_of(flag),
          [to = &to_, field = field_of(flag)](const std::string& value) { (*to)[field] = value; },
          help)
      ->type_name(type);
}

void RequestFlags::on(const std::string& flag, const std::string& help) {
  app_.add_flag_callback(
      names_of(flag), [to = &to_, field = field_of(flag)] { (*to)[field] = true; }, help);
}

void RequestFlags::off(const std::string& flag, const std::string& field, const std::string& help) {
  app_.add_flag_callback(
      names_of(flag), [to = &to_, field] { (*to)[field] = false; }, help);
}

void RequestFlags::numbers(const std::string& flag, const std::string& help) {
  app_.add_option_function<std::string>(
          names_of(flag),
          [to = &to_, field = field_of(flag)](const std::string& value) {
            const auto all = numbers_in(value, ',');
            (*to)[field] = all.size() == 1 ? Json(all[0]) : Json(all);
          },
          help)
      ->type_name("N,N...");
}

void RequestFlags::list(const std::string& flag, const std::string& help) {
  app_.add_option_function<std::string>(
          names_of(flag),
          [to = &to_, field = field_of(flag)](const std::string& value) {
            (*to)[field] = numbers_in(value, ',');
          },
          help)
      ->type_name("N,N...");
}

std::vector<double> numbers_from(std::string_view text, char separator, std::string_view flag) {
  try {
    return numbers_in(text, separator);
  } catch (const CLI::ConversionError& e) {
    throw Error(Code::invalid_argument, fmt::format("{} {}: {}", flag, printable(text), e.what()));
  }
}

RequestCommand::RequestCommand(const std::string& help, const std::string& name)
    : app(help, name), flags(app, request) {
  app.add_flag("--json", json, "JSON instead of a table");
  add_options(app, compute);
}

Json RequestCommand::ask(std::string_view what, Io& io) {
  const auto calculator = make_compute(compute, io.environment);
  request["device"] = compute.device;
  if (compute.explain) request["explain"] = true;
  Json answer = market::answer(*calculator, what, request);
  if (compute.explain && answer.contains("ran")) {
    const Json& ran = answer["ran"];
    io.err << "ran on the " << (ran.value("on", "cpu") == "gpu" ? "GPU" : "CPU");
    if (ran.contains("seconds"))
      io.err << fmt::format(" in {:.3g} ms", ran["seconds"].get<double>() * 1e3);
    io.err << ": " << ran.value("reason", "");
    if (ran.contains("fallback"))
      io.err << "; then on the CPU: " << ran["fallback"].get<std::string>();
    io.err << "\n";
    answer.erase("ran");
  }
  return answer;
}

void add_options(CLI::App& app, TableFlags& flags) {
  app.add_option("--in", flags.in, "CSV file with a header; - (default) is standard input")
      ->type_name("FILE");
  app.add_option("--by", flags.by, "column with the name of each row's series")->type_name("NAME");
  app.add_option("--column,--columns", flags.columns,
                 "columns to use (close where there is one, else all but the first)")
      ->type_name("NAME")
      ->delimiter(',');
}

void check_order(const market::Csv& csv, const std::string& by, std::ostream& err) {
  if (csv.rows() == 0 || !market::looks_dated(csv.text(0, 0))) return;
  const std::size_t owner = by.empty() ? 0 : csv.column(by);
  std::map<std::string_view, std::string_view> last;
  const char* hint = by.empty() ? "; --by COLUMN keeps several series in one table apart" : "";
  bool reported = false;
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const auto date = csv.text(row, 0);
    auto& before = last[by.empty() ? std::string_view() : csv.text(row, owner)];
    if (date.size() == before.size() && date < before)
      csv.fail(row, fmt::format("{} comes after {}: the oldest row must be the first{}",
                                in_quotes(date), in_quotes(before), hint));
    if (date == before && !reported) {
      err << fmt::format("note: {} has {} twice{}\n", printable(csv.name()), in_quotes(date), hint);
      reported = true;
    }
    before = date;
  }
}

Json series_of(const market::Csv& csv, const TableFlags& flags) {
  require(csv.rows() > 0, csv.name() + " has no rows");
  if (!flags.by.empty()) return joined(csv, flags);
  std::vector<std::string> names = flags.columns;
  if (names.empty() && csv.has("close")) names = {"close"};
  if (names.empty()) names.assign(csv.header().begin() + 1, csv.header().end());
  require(!names.empty(), csv.name() + " has one column only; the first names the rows");
  Json all = Json::object();
  auto& series = all.get_ref<Json::object_t&>();  // all[name] looks at all names before it
  std::set<std::string_view> known;
  for (const auto& name : names)
    if (known.insert(name).second) series.emplace_back(name, csv.numbers(csv.column(name)));
  return all;
}

std::string shown(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>() + 0.0);  // no -0
  return value.dump();
}

void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> lines{header};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<std::size_t> widths(header.size());
  for (auto& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i) {
      cells[i] = printable(cells[i]);  // names come from files
      widths[i] = std::max(widths[i], static_cast<std::size_t>(columns(cells[i])));
    }
  for (const auto& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - static_cast<std::size_t>(columns(cells[i])), ' ');
      out << (i == 0 ? cells[i] + space : "  " + space + cells[i]);
    }
    out << "\n";
  }
}

}  // namespace sluice::cli
