// Commands whose flags are the fields of a request of market/request, which defines their ranges
// and defaults.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/market/compute_flags.h"
#include "market/input/csv.h"

namespace sluice::cli {

// Flags that fill fields of `to`: --div-yield is the field div_yield. `to` must outlive the
// parsing.
class RequestFlags {
 public:
  RequestFlags(CLI::App& app, Json& to) : app_(app), to_(to) {}

  void number(const std::string& flag, const std::string& help);
  void text(const std::string& flag, const std::string& help, const std::string& type = "TEXT");
  void on(const std::string& flag, const std::string& help);                             // true
  void off(const std::string& flag, const std::string& field, const std::string& help);  // false
  void numbers(const std::string& flag, const std::string& help);  // 1,2,3; one is a number
  void list(const std::string& flag, const std::string& help);     // the same; one is a list, too

 private:
  CLI::App& app_;
  Json& to_;
};

struct RequestCommand {
  RequestCommand(const std::string& help, const std::string& name);
  RequestCommand(const RequestCommand&) = delete;
  RequestCommand& operator=(const RequestCommand&) = delete;

  // The answer of `what`; with --explain, where it ran goes to io.err.
  Json ask(std::string_view what, Io& io);

  CLI::App app;
  Json request = Json::object();
  RequestFlags flags;
  ComputeFlags compute;
  bool json = false;
};

// The numbers of "1:2:3"; throws invalid_argument naming `flag`.
std::vector<double> numbers_from(std::string_view text, char separator, std::string_view flag);

// ---- tables of prices ----------------------------------------------------------------

struct TableFlags {
  std::string in = "-", by;
  std::vector<std::string> columns;
};
void add_options(CLI::App& app, TableFlags& flags);

// Throws for a row that is before the one of its owner above it, where the first column holds
// dates: newest first, or several series in one, would be calculated all the same. A date that
// comes twice is reported on `err`.
void check_order(const market::Csv& csv, const std::string& by, std::ostream& err);

// Series by name, all over the same rows: the columns named (the close where there is one,
// else all but the first), or with `by` one for each owner, joined by the first column.
Json series_of(const market::Csv& csv, const TableFlags& flags);

// ---- output ---------------------------------------------------------------------------

// The JSON on one line. Bytes that are not UTF-8 are replaced. Text with characters that change a
// terminal is written in ASCII.
template <class AnyJson>
std::string in_utf8(const AnyJson& json) {
  constexpr auto kReplace = AnyJson::error_handler_t::replace;
  std::string text = json.dump(-1, ' ', false, kReplace);
  return is_plain_text(text) ? text : json.dump(-1, ' ', true, kReplace);
}

std::string shown(const Json& value);  // six digits; "-" for null

// Columns of one width each, the first to the left. Cells are made printable.
void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

int market_option(Args args, Io& io);
int market_montecarlo(Args args, Io& io);
int market_risk(Args args, Io& io);
int market_portfolio(Args args, Io& io);

}  // namespace sluice::cli
