// An SQLite database as its bytes show it, before SQLite opens it: whose it is, of which version,
// and whether its write-ahead log is whole.
//
// SQLite itself would recover the log, make files beside the database and merge the log into it,
// also in a file that is then found to be of another program. And it drops, without a word, every
// frame of the log from the first damaged one on. Nothing is written here and no lock is taken.
// Must not be used while this process has the database open: closing a file drops SQLite's locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sluice {

// The end of a write-ahead log: its generation (the salts) and its number of frames.
struct WalPosition {
  std::uint32_t salt1 = 0, salt2 = 0;  // salt1 grows by one with each new generation
  std::uint64_t frames = 0;
  friend bool operator==(const WalPosition&, const WalPosition&) = default;
};

struct WalFacts {
  std::uint64_t bytes = 0;  // of the file; 0 where there is none
  std::optional<WalPosition>
      position;               // the last commit SQLite will find; nothing without a header
  std::uint64_t dropped = 0;  // frames of this generation from a damaged one to the last commit
  bool has_bad_header = false;
};

struct SqliteFacts {
  bool exists = false;
  std::uint64_t bytes = 0;
  bool is_database = false;  // of SQLite; the others say nothing otherwise
  bool has_tables = false;
  std::int64_t application_id = 0, user_version = 0;  // as of the last commit in the log
  WalFacts wal;
};

// Throws unavailable where a file cannot be read, or is no state file of ours.
SqliteFacts inspect_sqlite(const std::string& path);

// Throws invalid_argument where the file is of another program or of a version above
// `known_version`, internal where it is no database. One that is missing, empty or without tables
// has no owner yet.
void require_ours(const SqliteFacts& facts, std::int64_t application_id,
                  std::int64_t known_version);

// One sentence about what of the log is lost or damaged; empty where it is whole. `expected` is
// where it ended, by another record.
std::string wal_damage(const SqliteFacts& facts, const std::optional<WalPosition>& expected);

// The two below are for a process that has the log open through SQLite, which keeps no locks on it.

// The position in a log of `frames` frames; nothing where its header is damaged. `log` is open for
// reading.
std::optional<WalPosition> wal_position(int log, std::uint64_t frames);

// Reads a log again that this process has written. SQLite trusts what it wrote: it would copy what
// somebody else has put into the log meanwhile over the database.
class WalCheck {
 public:
  explicit WalCheck(int log);  // stays open for longer than this
  ~WalCheck();

  // Whether all frames up to `end` are as they were written. Reads on from the end of the last
  // call, or from the start where the log has begun anew. Throws unavailable.
  bool reaches(const WalPosition& end);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
