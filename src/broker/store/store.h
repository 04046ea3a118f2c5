// Leases on disk: what a broker that was killed finds again.
//
// One SQLite file with a write-ahead log. What write() has returned from survives the
// end of this process by any signal, because it is with the kernel by then; a power
// cut may cost the newest changes, but not the file, unless every write waits for the
// disk (Durability::power). Checkpoints, which wait for the disk, run on a thread of
// their own. docs/leases.md has the format.
//
// A lease's number is its fencing token and is never given twice, whatever is lost:
// numbers begin at the microseconds since 1970, which no rate of leases overtakes, and
// blocks of them are reserved on disk before they are used, so that a clock that was
// set back does no harm either. Only both together (the folder lost and the clock set
// back) can repeat one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "broker/lease/batch_size.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

// One moment on both clocks. Instants are of one boot, so what is stored is wall time.
struct Moment {
  Instant now;
  WallTime wall;
};
WallTime wall_of(Instant t, const Moment& moment);
Instant instant_of(std::int64_t wall_ms, const Moment& moment);

struct FootprintKey {
  std::string peer, agent, model_type;
  friend auto operator<=>(const FootprintKey&, const FootprintKey&) = default;
};
inline constexpr std::size_t kMaxFootprints = 4096;  // of all peers
struct Runs {
  std::vector<Footprint> runs;  // newest last
  std::int64_t at_ms = 0;       // of the newest
};
using Footprints = std::map<FootprintKey, Runs>;

// The failures that an acknowledged change survives.
enum class Durability {
  process,  // the end of this process, by any signal
  power,    // the end of the machine, too: every write waits for the disk
};

class Store {
 public:
  struct Options {
    std::string dir;  // leases.db is in it; empty: in memory, gone with this object
    std::string boot_id;
    std::size_t keep_ended = 100'000;
    std::chrono::hours keep_for{24 * 30};
    int checkpoint_pages = 8192;  // of the log, 4 KiB each
    Durability durability = Durability::process;
  };
  // Throws unavailable: another process has the store (says which), the folder cannot
  // be written, or the file is damaged, foreign or newer (says what to do). A file
  // that cannot be read is never replaced by an empty one; a foreign or newer one is not
  // opened at all. Damage of the log is reported (see damage()), and what is left is used.
  explicit Store(Options options);
  // Where the database was removed, its rows are written to a new one. Where it was damaged,
  // nothing is written to it: what write_anew() was given takes its place, and it is kept beside
  // that.
  ~Store();

  struct Loaded {
    std::vector<Lease> leases;  // by id; those that had not ended
    LeaseId last_id = 0;        // none that was ever given out is above
    bool same_boot = false;     // as that of `Options`: process start times still hold
    Footprints footprints;
  };
  Loaded load(const Moment& at);  // throws unavailable, also where no numbers can be reserved
  // From now on `Options::boot_id` is the boot before. For after what the change of boot
  // ended was written.
  void remember_boot();

  // All of it or nothing. Not thread-safe: the broker calls it under its lock.
  void write(std::span<const Lease* const> leases, const Moment& at);
  // `instead` is forgotten.
  void write(const FootprintKey& key, std::span<const Footprint> runs, const Moment& at,
             const FootprintKey* instead = nullptr);
  // Throws where a lease could not be written now.
  void probe(const Moment& at);
  // False where a file was removed, moved, replaced or damaged while it is open, as of the last
  // look, which is each second. Then nothing is written: the functions above throw unavailable.
  // Thread-safe.
  bool has_its_files() const noexcept;
  // For the end, when nobody else uses the store: true where somebody else has cut off or
  // overwritten the database or its log. Reads all of the log.
  bool is_damaged();
  // For such a database: these are in the file that the next store opens. Logs a failure.
  void write_anew(std::span<const Lease* const> leases, const Footprints& footprints,
                  const Moment& at) noexcept;
  // The damage found when the store was opened, until leases.damage is removed; lines with their
  // time. Empty without damage. Thread-safe.
  std::string damage() const;
  // Deletes expired rows, a few at a time; cheap enough for every minute.
  void forget_old(const Moment& at);

  // Also one that has ended, as long as it is kept. Thread-safe.
  std::optional<Lease> find(LeaseId id, const Moment& at) const;
  struct Past {
    std::vector<Lease> leases;  // by id
    LeaseId first = 0;          // of all rows that were looked at; 0: there was none
    std::size_t damaged = 0;    // rows that make no sense, or could not be read; left out
  };
  // Leases that were held or waited for at some time within the range, the newest `limit`
  // of them, or of those with an id below `before`. Thread-safe, and does not wait for write().
  Past between(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit, const Moment& at,
               LeaseId before = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::broker
