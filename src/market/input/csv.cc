#include "market/input/csv.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <istream>
#include <limits>

#include "base/ascii.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace sluice::market {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Returns the separator that occurs most often in the first line.
char separator_of(std::string_view text) {
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  char best = ',';
  for (const char candidate : {';', '\t'})
    if (std::ranges::count(line, candidate) > std::ranges::count(line, best)) best = candidate;
  return best;
}

// Makes a text from a table fit for a message.
std::string shortened(std::string_view text, std::size_t limit = 40) {
  return printable(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
}

std::string all_of(std::istream& in, const std::string& name, std::size_t limit) {
  std::string text;
  for (std::size_t had = 0; in; text.resize(had)) {
    text.resize(std::min(std::max<std::size_t>(2 * had, 1 << 20), limit + 1));
    in.read(text.data() + had, static_cast<std::streamsize>(text.size() - had));
    had += static_cast<std::size_t>(in.gcount());
    require(had <= limit, fmt::format("{}: more than {} bytes are too many", name, limit));
  }
  return text;
}

// Devices have no end of file.
bool has_an_end(const std::string& file) {
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  return std::filesystem::is_regular_file(status) || std::filesystem::is_fifo(status);
}

std::string content_of(const std::string& file, std::size_t limit) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(Code::not_found, "cannot read " + file);
  try {
    if (has_an_end(file)) {
      std::string text = all_of(in, file, limit);
      if (!in.bad()) return text;
    }
  } catch (const std::ios_base::failure&) {  // a disk that fails
  }
  throw Error(Code::not_found, "cannot read " + file + ": not a file, or not readable to its end");
}

// Parses a number; an empty field is a NaN.
bool number(std::string_view field, double& value) {
  std::string_view text = trimmed(field);
  value = std::numeric_limits<double>::quiet_NaN();
  if (text.empty() || equal_ignoring_case(text, "nan")) return true;
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && std::isfinite(value);
}

}  // namespace

Csv Csv::parse(std::string text, std::string name) {
  Csv csv;
  csv.name_ = std::move(name);
  csv.text_ = std::move(text);
  if (csv.text_.starts_with(kByteOrderMark)) csv.text_.erase(0, kByteOrderMark.size());
  csv.split();
  return csv;
}

std::size_t Csv::max_bytes() {
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::min<std::size_t>(std::size_t{4} << 30, memory / 4);
}

Csv Csv::read(const std::string& file, std::istream& standard_input, std::size_t limit) {
  if (file == "-") return parse(all_of(standard_input, "stdin", limit), "stdin");
  return parse(content_of(file, limit), file);
}

void Csv::split() {
  require(!text_.empty(), name_ + ": is empty; a line of column names is expected");
  const char separator = separator_of(text_);
  std::vector<Field> fields;
  std::size_t at = split_line(0, separator, fields);
  for (const Field& field : fields)
    header_.emplace_back(trimmed(std::string_view(text_).substr(field.begin, field.length)));
  for (std::size_t i = 0; i < header_.size(); ++i)
    if (!columns_.emplace(ascii_lower(header_[i]), i).second)
      throw Error(Code::invalid_argument,
                  fmt::format("{}:1: two columns are named '{}'", name_, shortened(header_[i])));
  while (at < text_.size()) {
    const std::size_t line = line_;
    at = split_line(at, separator, fields);
    if (fields.size() == 1 && fields[0].length == 0 && header_.size() > 1) continue;
    require(fields.size() == header_.size(),
            fmt::format("{}:{}: {} fields, but the header names {}", name_, line, fields.size(),
                        header_.size()));
    fields_.insert(fields_.end(), fields.begin(), fields.end());
    lines_.push_back(line);
  }
}

// Returns where the next line begins.
std::size_t Csv::split_line(std::size_t at, char separator, std::vector<Field>& fields) {
  fields.clear();
  const auto here = [&] { return at < text_.size() ? text_[at] : '\n'; };
  for (;;) {
    fields.push_back(here() == '"' ? quoted(at) : plain(at, separator));
    if (here() != separator || at == text_.size()) break;
    ++at;
  }
  require(here() == '\n' || here() == '\r',
          fmt::format("{}:{}: text after a closing quote", name_, line_));
  if (here() == '\r') ++at;
  if (here() == '\n') ++at;
  ++line_;
  return std::min(at, text_.size());
}

Csv::Field Csv::plain(std::size_t& at, char separator) const {
  const char ends[] = {separator, '\r', '\n'};
  const std::size_t begin = at;
  at = std::min(text_.find_first_of(ends, at, sizeof ends), text_.size());
  return {begin, at - begin};
}

// Turns doubled quotes into one, in place.
Csv::Field Csv::quoted(std::size_t& at) {
  const std::size_t line = line_, begin = ++at;
  std::size_t to = begin;
  for (;; ++at) {
    require(at < text_.size(), fmt::format("{}:{}: a quote has no end", name_, line));
    if (text_[at] == '"') {
      ++at;
      if (at == text_.size() || text_[at] != '"') return {begin, to - begin};
    }
    if (text_[at] == '\n') ++line_;
    text_[to++] = text_[at];
  }
}

bool Csv::has(std::string_view name) const { return columns_.contains(ascii_lower(name)); }

std::size_t Csv::column(std::string_view name) const {
  const auto found = columns_.find(ascii_lower(name));
  if (found != columns_.end()) return found->second;
  const std::vector<std::string_view> names(header_.begin(), header_.end());
  throw Error(Code::invalid_argument,
              fmt::format("{}:1: no column named '{}'{}; it has {}", name_, shortened(name),
                          did_you_mean(name, names),
                          shortened(fmt::format("{}", fmt::join(names, ", ")), 400)));
}

std::string_view Csv::text(std::size_t row, std::size_t column) const {
  const Field& field = fields_[row * header_.size() + column];
  return std::string_view(text_).substr(field.begin, field.length);
}

std::vector<double> Csv::numbers(std::size_t column) const {
  std::vector<double> values(rows());
  for (std::size_t row = 0; row < rows(); ++row)
    if (!number(text(row, column), values[row]))
      fail(row, fmt::format("column '{}': '{}' is not a number", shortened(header_[column]),
                            shortened(text(row, column))));
  return values;
}

void Csv::fail(std::size_t row, const std::string& what) const {
  throw Error(Code::invalid_argument, fmt::format("{}:{}: {}", name_, lines_[row], what));
}

void append_number(std::string& to, double value) {
  if (std::isnan(value)) return;
  fmt::format_to(std::back_inserter(to), "{:.17g}", value);
}

void append_text(std::string& to, std::string_view text) {
  if (text.find_first_of(",;\t\"\r\n") == std::string_view::npos) {
    to += text;
    return;
  }
  to += '"';
  for (const char c : text) to.append(c == '"' ? 2 : 1, c);
  to += '"';
}

}  // namespace sluice::market
