// All rows of the store, each compared with its checksum, for a start and for `sluice doctor`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sqlite/sqlite.h"
#include "broker/store/store.h"

namespace sluice::broker {

struct StoredRows {
  std::vector<Lease> live;          // by id
  LeaseId last = 0;                 // the highest number of a lease, also of one that ended
  LeaseId last_damaged = 0;         // the same of damaged rows, whose number may be wrong
  Footprints footprints;            // the newest kMaxFootprints
  std::optional<std::string> boot;  // that process start times refer to
  std::vector<std::int64_t> damaged_leases;
  std::size_t damaged_footprints = 0;
  bool is_state_damaged = false;
};

// Leaves damaged rows out. Throws internal where a row that agrees with its checksum makes no
// sense, or the file cannot be read.
StoredRows read_rows(Database& db, const Moment& at);

// One sentence for each kind of damaged rows.
std::vector<std::string> damage_in(const StoredRows& rows);

// Deletes the damaged rows; `rows` are those that read_rows() returned.
void drop_damaged(Database& db, const StoredRows& rows);

// Writes the checksum of each row of a database that had none.
void seal_rows(Database& db);

// What is left of `rows`. Damage is logged where there is more of it than `reported`, which grows.
Store::Past read_past(Statement& rows, const Moment& at, std::atomic<std::size_t>& reported);

// Into a new database with tables.
void write_rows(Database& db, std::span<const Lease* const> leases, const Footprints& footprints,
                const std::string& boot, const Moment& at);

}  // namespace sluice::broker
