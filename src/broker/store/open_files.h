// Compares the files that a store has open with those that have their names now. A file that was
// removed or replaced goes on to work for who has it open, and is lost at a crash.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace sluice::broker {

class OpenFiles {
 public:
  // Of leases.db, its log and leases.lock, which are open now.
  explicit OpenFiles(const std::string& dir);
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Looks again: a few system calls, which open nothing. One thread at a time.
  void look() noexcept;
  // The rest is as of the last look and thread-safe.
  bool are_in_place() const noexcept { return !is_lost_; }
  std::string trouble() const;    // one sentence; empty: all are in their places
  void require_in_place() const;  // throws unavailable
  // True where a file has no name any more; false where all exist, perhaps elsewhere.
  bool is_removed() const noexcept { return is_removed_; }
  // False where the database is not in its place.
  bool has_database() const noexcept { return has_database_; }
  // True where closing the database saves nothing: SQLite does not merge the log into a file
  // without its name.
  bool needs_copy() const noexcept { return needs_copy_; }

 private:
  struct File {
    std::string path, name;
    int fd = -1;  // a name only (O_PATH): to close it drops none of SQLite's locks
    dev_t dev = 0;
    ino_t ino = 0;
  };
  enum class Place { here, elsewhere, removed };
  static Place place_of(const File& file) noexcept;
  std::string sentence(const std::string& names, bool removed, bool copy) const;

  std::vector<File> files_;  // the database first, then its log
  std::atomic<bool> is_lost_{false}, is_removed_{false}, needs_copy_{false}, has_database_{true};
  mutable Mutex mutex_;
  std::string trouble_ GUARDED_BY(mutex_);
};

}  // namespace sluice::broker
