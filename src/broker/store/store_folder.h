// The folder of a store: its lock, and checks that its files are ours and complete.
//
//   leases.db      the database, with -wal beside it while it is open
//   leases.lock    locked by the one process that may write; names it
//   leases.mark    numbers that were reserved, and where the log ended; see store_mark.h
//   leases.damage  damage with its time, one line each; the operator removes it after reading
//   leases.db.damaged-TIME  the database (and -wal) as it was found damaged last
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/sqlite/sqlite.h"
#include "broker/store/store_lock.h"
#include "broker/store/store_mark.h"

namespace sluice::broker {

class StoreFolder {
 public:
  // Makes the folder, takes the lock and looks at the files; no file of the database is opened
  // for writing. Throws unavailable: another process has the store (says which), the folder
  // cannot be written, or the database is empty, foreign or newer (says what to do).
  explicit StoreFolder(std::string dir);
  ~StoreFolder();

  std::string database() const { return dir_ + "/leases.db"; }
  const Marked& marked() const noexcept { return marked_; }  // when it was opened
  StoreMark& mark() noexcept { return *mark_; }

  // The database is open: names us in the lock, and reports what was found damaged, in the log
  // and in leases.damage.
  void sign();
  // The same of something found later. Thread-safe, as damage() is.
  void report(const std::string& what) noexcept;
  // The same of rows that are damaged. Keeps a copy of the database first, where sign() kept none.
  void report_rows(const std::vector<std::string>& found, Database& db) noexcept;
  // The content of leases.damage, and what could not be written to it; empty when there is none.
  // Cheap when no damage was found when the store was opened. Thread-safe.
  std::string damage() const noexcept;
  // Writes what could not be written before. Thread-safe.
  void write_report() noexcept;

  // For a database that was removed or damaged while it is open: the first writes rows to another
  // file, and false says that it cannot; the last, when it is closed, gives that file its name. The
  // second makes room for it: what is damaged becomes leases.db.damaged-TIME.
  bool write_anew(Database& db) noexcept;
  bool put_aside() noexcept;
  void put_anew(LeaseId reserved) noexcept;

 private:
  void keep_copy() noexcept;
  std::string copy_of_open(Database& db) noexcept;
  void write_unwritten() noexcept REQUIRES(reporting_);
  void drop_older_copies() noexcept;

  const std::string dir_;
  StoreLock lock_;
  Marked marked_;
  std::optional<StoreMark> mark_;
  bool has_new_mark_ = false;  // which is removed where the store is refused
  std::vector<std::string> found_;
  std::string copy_;  // of what is damaged, until sign()
  bool has_copy_ = false;
  std::atomic<bool> has_damage_{false};
  mutable Mutex reporting_;
  std::string unwritten_ GUARDED_BY(reporting_);  // lines of the report
  std::string anew_;                              // the file that write_anew() wrote
};

// Throws unavailable with what to do about it.
[[noreturn]] void refuse_store(const std::string& path, std::string_view why);

// For `sluice doctor`. Changes nothing and may be used while a server runs.
struct StoreHealth {
  bool exists = false;
  bool is_in_use = false;  // by a server; then its log is not looked at
  std::uint64_t bytes = 0;
  std::string refusal;       // why a server would not start with it
  std::string damage;        // what the next start will report, or the last one did
  bool is_reported = false;  // the last one did: leases.damage is there
};
StoreHealth store_health(const std::string& dir);

}  // namespace sluice::broker
