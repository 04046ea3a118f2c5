// Rows whose last column is a checksum over the columns before it. SQLite checks the structure of
// its file, not the values in it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/checksum.h"
#include "base/sqlite/sqlite.h"

namespace sluice {

// Binds the values of a row in order; seal() comes last and binds the checksum.
class CheckedRow {
 public:
  explicit CheckedRow(Statement& statement) : statement_(statement) {}

  CheckedRow& bind(std::int64_t value);
  CheckedRow& bind(std::string_view value);
  CheckedRow& bind_kept(std::string_view value);  // not copied: it must be there until step()
  Statement& seal();

 private:
  Statement& statement_;
  Checksum sum_;
};

// The checksum over the first `columns` columns of a row that was read.
std::int64_t checksum_of(const Statement& row, int columns);

// Tells whether the column after the first `columns` has their checksum.
bool is_whole(const Statement& row, int columns);

}  // namespace sluice
