// Compares the files that a store has open with those that have their names now, and with what the
// store has written. A file that was removed or replaced goes on to work for who has it open, and
// is lost at a crash. In one that was cut off or overwritten SQLite would write on.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/sqlite/sqlite_file.h"

namespace sluice::broker {

class OpenFiles {
 public:
  // Of leases.db, its log and leases.lock, which are open now. SQLite's handles have to be closed
  // first: closing a file drops all locks that the process has on it.
  explicit OpenFiles(const std::string& dir);
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  // Looks again: a few system calls, which open nothing. One thread at a time.
  void look() noexcept;
  // The store has written to the database, with no look between that and the one before. By the
  // thread that looks.
  void database_was_written() noexcept;
  // The store has written to the log, which has so many frames now. Returns its end; nothing where
  // its header is damaged. Thread-safe.
  std::optional<WalPosition> log_was_written(std::uint64_t frames) noexcept;
  int log() const noexcept { return files_[1].fd; }  // open for reading
  // The header of the log and all of it, compared with what was written last. While nobody writes;
  // a log that begins anew meanwhile looks damaged. Thread-safe.
  bool has_log_header() const;
  bool is_log_whole(WalCheck& check) const;
  // The log, found by who has read it. It is not forgotten. Thread-safe.
  void set_log_damaged() noexcept { set_damaged(files_[1].name + " was overwritten"); }
  // The rest is as of the last look and thread-safe.
  bool are_in_place() const noexcept { return !is_lost_; }
  std::string trouble() const;    // one sentence; empty: all are in their places
  void require_in_place() const;  // throws unavailable
  // True where a file has no name any more; false where all exist, perhaps elsewhere.
  bool is_removed() const noexcept { return is_removed_; }
  // False where the database is not in its place.
  bool has_database() const noexcept { return has_database_; }
  // True where the content is not what was written: nothing may be written to it or merged.
  bool is_damaged() const noexcept { return is_damaged_; }
  // True where closing the database saves nothing: SQLite does not merge the log into a file
  // without its name.
  bool needs_copy() const noexcept { return needs_copy_; }

 private:
  struct File {
    std::string path, name;
    int fd = -1;
    dev_t dev = 0;
    ino_t ino = 0;
    off_t size = 0;  // never less than this: neither file gets smaller while it is open
  };
  static constexpr std::size_t kHeader = 100;  // bytes; of a database
  using Header = std::array<char, kHeader>;
  enum class Place { here, elsewhere, removed };
  static Place place_of(const File& file) noexcept;
  void set_damaged(const std::string& what) noexcept;
  std::string damage_now();
  std::string sentence(const std::string& names, bool removed, bool copy) const;

  std::vector<File> files_;  // the database first, then its log
  std::optional<Header> header_;
  std::atomic<bool> is_lost_{false}, is_removed_{false}, needs_copy_{false}, has_database_{true};
  std::atomic<bool> is_damaged_{false};
  mutable Mutex mutex_;
  std::optional<WalPosition> log_end_ GUARDED_BY(mutex_);  // nothing before the first commit
  std::string trouble_ GUARDED_BY(mutex_), damage_ GUARDED_BY(mutex_);
};

}  // namespace sluice::broker
