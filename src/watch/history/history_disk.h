// The history's file: its lock, and the fallback when it cannot be used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/state_file.h"
#include "watch/history/history_store.h"

namespace sluice::watch {

// Ours until destroyed: no other process can hold the same file.
class FileLock {
 public:
  explicit FileLock(const std::string& path);  // throws unavailable when another process has it

 private:
  StateFile file_;
};

struct HistoryDisk {
  FileLock lock;
  HistoryStore writer;
  HistoryStore reader;
  std::int64_t last_batch;  // when it was opened
};

// Opens or makes the file and its folder. A file that is damaged, foreign or of a
// newer version is moved aside first, with a line in the log. Throws unavailable
// or exhausted when there can be no file at all.
std::unique_ptr<HistoryDisk> open_history(const std::string& path, std::uint64_t max_bytes);

// Renames `path` and SQLite's files beside it to "<path>.<why>-<time>"; returns
// the new name. The database must be closed.
std::string move_aside(const std::string& path, const std::string& why);

}  // namespace sluice::watch
