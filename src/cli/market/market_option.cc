// sluice market option.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/printable.h"
#include "cli/market/market_request.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kOptionExamples =
    "  sluice market option --spot 100 --strike 105 --t 0.5 --rate 0.03 --vol 0.2\n"
    "  sluice market option --spot 100 --strike 90,100,110 --t 1 --vol 0.25 --kind put\n"
    "  sluice market option --model implied --price 4.2 --spot 100 --strike 105 --t 0.5\n"
    "  sluice market option --model american --kind put --in options.csv > prices.csv\n"
    "A CSV has columns spot, strike, t, rate, div_yield, vol, kind, price as needed; what it\n"
    "has not is taken from the flags. Out comes its first column with the results.";
constexpr const char* kColumns[] = {"spot", "strike", "t", "rate", "div_yield", "vol", "price"};

// A table of quotes may have both volatility and price. One is an input, the other the result of
// some models.
bool uses_column(const std::string& model, std::string_view column) {
  if (column == "price") return model == "implied";
  return column != "vol" || (model != "implied" && model != "heston");
}

void take_columns(const market::Csv& csv, Json& request) {
  const std::string model = request.value("model", "");
  for (const char* name : kColumns)
    if (csv.has(name) && uses_column(model, name)) request[name] = csv.numbers(csv.column(name));
  if (!csv.has("kind")) return;
  const std::size_t column = csv.column("kind");
  Json kinds = Json::array();
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const auto kind = csv.text(row, column);
    if (kind != "call" && kind != "put")
      csv.fail(row, fmt::format("column kind: {} is neither call nor put", in_quotes(kind)));
    kinds.push_back(kind);
  }
  request["kind"] = std::move(kinds);
}

// Fields of the answer that are results.
std::vector<std::string> results_of(const Json& answer) {
  std::vector<std::string> names;
  for (const auto& item : answer.items())
    if (item.key() != "model" && item.key() != "options" && item.key() != "kind")
      names.push_back(item.key());
  return names;
}

Json at(const Json& list, std::size_t i) { return list.is_array() ? list[i] : list; }

void write_csv(const Json& answer, const market::Csv& csv, std::ostream& out) {
  const auto names = results_of(answer);
  std::string text;
  market::append_text(text, csv.header()[0]);
  for (const auto& name : names) text += "," + name;
  text += '\n';
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    market::append_text(text, csv.text(row, 0));
    for (const auto& name : names) {
      const Json value = at(answer[name], row);
      text += ',';
      if (value.is_number()) market::append_number(text, value.get<double>());
      if (value.is_string()) market::append_text(text, value.get<std::string>());
    }
    text += '\n';
  }
  out << text;
}

void write_rows(const Json& answer, const std::vector<std::string>& names, std::size_t count,
                std::ostream& out) {
  std::vector<std::string> header{"option"};
  for (std::size_t i = 0; i < count; ++i) header.push_back(std::to_string(i + 1));
  std::vector<std::vector<std::string>> rows;
  for (const auto& name : names) {
    rows.push_back({name});
    for (std::size_t i = 0; i < count; ++i) rows.back().push_back(shown(at(answer[name], i)));
  }
  if (count == 1) header = {answer.value("model", ""), answer.value("kind", "value")};
  print_table(out, header, rows);
}

void add_option_flags(RequestFlags& f) {
  f.text("model", "black_scholes (default), binomial, american, heston or implied");
  f.text("kind", "call (default) or put");
  f.numbers("spot", "price of the underlying");
  f.numbers("strike", "strike price");
  f.numbers("t", "years to expiry");
  f.numbers("rate", "interest a year, continuous (0)");
  f.numbers("div-yield", "dividends a year, continuous (0)");
  f.numbers("vol", "volatility a year");
  f.numbers("price", "price of the option, for --model implied");
  f.number("steps", "steps of the binomial tree (1024)");
  f.text("exercise", "exercise style of the binomial tree: american (default) or european");
  f.text("accuracy", "accuracy of american: fast, standard (default) or fine");
  for (const char* name : {"v0", "kappa", "theta", "sigma", "rho"})
    f.number(name, std::string("Heston's ") + name);
}

}  // namespace

int market_option(Args args, Io& io) {
  RequestCommand command("Prices, Greeks and implied volatilities of options",
                         "sluice market option");
  std::string in;
  add_option_flags(command.flags);
  command.app
      .add_option("--in", in, "CSV file with a header, an option a row; - is standard input")
      ->type_name("FILE");
  if (!parse(command.app, args, io, kOptionExamples)) return 0;
  std::optional<market::Csv> csv;
  if (!in.empty()) {
    csv = market::Csv::read(in, io.in);
    require(csv->rows() > 0, csv->name() + " has no rows");
    take_columns(*csv, command.request);
  }
  const Json answer = command.ask("option", io);
  const auto count = answer["options"].get<std::size_t>();
  if (command.json)
    io.out << in_utf8(answer) << '\n';
  else if (csv && count == csv->rows())
    write_csv(answer, *csv, io.out);
  else
    write_rows(answer, results_of(answer), count, io.out);
  return 0;
}

}  // namespace sluice::cli
