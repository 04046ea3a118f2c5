#include "base/sqlite/checked_row.h"

namespace sluice {

namespace {

constexpr std::uint64_t kText = 3, kOther = 4;  // before what is no number: "" is not 0

void add_text(Checksum& sum, std::string_view text) {
  sum.add(kText);
  sum.add(text);
}

}  // namespace

CheckedRow& CheckedRow::bind(std::int64_t value) {
  sum_.add(static_cast<std::uint64_t>(value));
  statement_.bind(value);
  return *this;
}

CheckedRow& CheckedRow::bind(std::string_view value) {
  add_text(sum_, value);
  statement_.bind(value);
  return *this;
}

CheckedRow& CheckedRow::bind_kept(std::string_view value) {
  add_text(sum_, value);
  statement_.bind_kept(value);
  return *this;
}

Statement& CheckedRow::seal() { return statement_.bind(static_cast<std::int64_t>(sum_.value())); }

std::int64_t checksum_of(const Statement& row, int columns) {
  Checksum sum;
  for (int i = 0; i < columns; ++i) {
    if (row.is_number(i))
      sum.add(static_cast<std::uint64_t>(row.number(i)));
    else if (row.is_text(i))
      add_text(sum, row.view(i));
    else
      sum.add(kOther);
  }
  return static_cast<std::int64_t>(sum.value());
}

bool is_whole(const Statement& row, int columns) {
  return row.is_number(columns) && row.number(columns) == checksum_of(row, columns);
}

}  // namespace sluice
