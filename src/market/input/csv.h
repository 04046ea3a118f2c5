// Tables of numbers as text. Comma, semicolon or tab, whichever the header has; fields may
// be quoted; a byte order mark, CRLF and empty lines at the end are fine. The first column
// is kept as text (dates, mostly); in all others an empty field, or the word nan, is a NaN.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::market {

class Csv {
 public:
  // Throws invalid_argument with "NAME:LINE: ..." for rows whose number of fields is not
  // the header's, for quotes without an end and for a header with two equal names.
  // `name` is the file's, for errors.
  static Csv parse(std::string text, std::string name);
  // "-" reads `standard_input`. Throws not_found when there is no such file, or it is a folder or a
  // device, and invalid_argument when there are more than `limit` bytes of it.
  static Csv read(const std::string& file, std::istream& standard_input,
                  std::size_t limit = max_bytes());
  static std::size_t max_bytes();  // 4 GB, or a quarter of the memory where that is less

  const std::string& name() const noexcept { return name_; }
  std::size_t rows() const noexcept { return lines_.size(); }
  const std::vector<std::string>& header() const noexcept { return header_; }

  // Returns the index of a column by its case-insensitive name. Throws invalid_argument, naming the
  // nearest and all columns.
  std::size_t column(std::string_view name) const;
  bool has(std::string_view name) const;

  std::string_view text(std::size_t row, std::size_t column) const;

  // Throws invalid_argument for the first field that is no finite number: its line, column and
  // text.
  std::vector<double> numbers(std::size_t column) const;

  // Throws like the others: "prices.csv:17: ...".
  [[noreturn]] void fail(std::size_t row, const std::string& what) const;

 private:
  struct Field {
    std::size_t begin, length;
  };
  void split();
  std::size_t split_line(std::size_t at, char separator, std::vector<Field>& fields);
  Field plain(std::size_t& at, char separator) const;
  Field quoted(std::size_t& at);

  std::string name_, text_;
  std::vector<std::string> header_;
  std::unordered_map<std::string, std::size_t> columns_;  // by name in lower case
  std::vector<Field> fields_;                             // of all rows
  std::vector<std::size_t> lines_;  // number of each row's first line in the file
  std::size_t line_ = 1;            // that is being read
};

// Appends 17 significant digits, which read back as the same number; nothing for a NaN.
void append_number(std::string& to, double value);

// Appends `text` as one field, quoted when it must be.
void append_text(std::string& to, std::string_view text);

}  // namespace sluice::market
