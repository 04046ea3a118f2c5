// Counts the rows of leases that have ended, and deletes the oldest when there are too many. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>

#include "base/sqlite/sqlite.h"
#include "broker/store/store.h"

namespace sluice::broker {

class EndedRows {
 public:
  explicit EndedRows(Database& db);  // outlives this

  void count();                                          // reads all
  std::size_t total() const noexcept { return total_; }  // about
  // Deletes the oldest of the peer that has most: one that has many costs others none of theirs.
  // Returns how many. The count is that of before until were_written().
  std::size_t forget(std::size_t rows, const Moment& at);
  // `leases` were stored, some of them ended, and so many rows were deleted.
  void were_written(std::span<const Lease* const> leases, std::size_t deleted);

 private:
  Database& db_;
  Statement forget_of_peer_;
  std::size_t total_ = 0;
  std::unordered_map<std::string, std::size_t> of_;  // by peer
  std::string most_;                                 // the peer that had most at the last look
  unsigned looks_again_in_ = 0;
};

}  // namespace sluice::broker
