// A small file (leases.mark) with the facts that must survive the loss of the database: the number
// up to which leases were reserved, and where the database's log ended.
//
// Two lines of fixed length, each with a checksum, written in place: that takes no space, so it
// works on a full disk.
#pragma once

#include <optional>
#include <string>

#include "base/sqlite/sqlite_file.h"
#include "base/state_file.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

struct Marked {
  bool exists = false;
  std::optional<LeaseId> reserved;      // nothing where the file is missing or damaged
  std::optional<WalPosition> position;  // nothing also where the store was closed in order
  bool is_damaged = false;
};
// Changes nothing. Throws unavailable.
Marked read_mark(const std::string& path);

class StoreMark {
 public:
  // Makes the file where it is missing. Throws unavailable.
  explicit StoreMark(const std::string& path);

  // No lease gets a number above the last one given here. With the disk when it returns. Throws
  // unavailable. One thread at a time.
  void reserve(LeaseId last);
  // A hint, with the kernel when it returns; nothing: the store is closed. One thread at a time.
  void note(const std::optional<WalPosition>& position) noexcept;
  void sync() noexcept;

 private:
  std::string path_;
  StateFile file_;
};

}  // namespace sluice::broker
