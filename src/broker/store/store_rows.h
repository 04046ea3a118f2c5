// A lease as a row of the store, and back.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sqlite/sqlite.h"
#include "broker/store/store.h"

namespace sluice::broker {

inline constexpr std::int64_t kApplication = 0x536c6c73;  // "Slls": marks our files

// Columns in the order of bind_lease() and lease_from(). Words instead of numbers for
// what is an enum, so that the file can be read without this program.
inline constexpr const char* kCreateTables =
    "CREATE TABLE leases(id INTEGER PRIMARY KEY, secret INTEGER NOT NULL,"
    "  renewals INTEGER NOT NULL, state TEXT NOT NULL, ending TEXT NOT NULL,"
    "  agent TEXT NOT NULL, bytes INTEGER NOT NULL, min_bytes INTEGER NOT NULL,"
    "  gpus INTEGER NOT NULL, priority TEXT NOT NULL, model_type TEXT NOT NULL,"
    "  device TEXT NOT NULL, numa_node INTEGER NOT NULL, linked INTEGER NOT NULL,"
    "  placement TEXT NOT NULL, ttl_ms INTEGER NOT NULL, wait_ms INTEGER NOT NULL,"
    "  on_unavailable TEXT NOT NULL, client_limits INTEGER NOT NULL, pid INTEGER NOT NULL,"
    "  start_time INTEGER NOT NULL, uid INTEGER NOT NULL, parts TEXT NOT NULL,"
    "  enforcement TEXT NOT NULL, reason TEXT NOT NULL, asked_ms INTEGER NOT NULL,"
    "  granted_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, yield_by_ms INTEGER NOT NULL,"
    "  ended_ms INTEGER NOT NULL, yields_to INTEGER NOT NULL,"
    "  yield_asked_ms INTEGER NOT NULL DEFAULT 0, yield_freed_ms INTEGER NOT NULL DEFAULT 0,"
    "  yield_kept INTEGER NOT NULL DEFAULT 0, peer TEXT NOT NULL DEFAULT '',"
    "  idempotency_key TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX leases_by_end ON leases(ended_ms) WHERE state = 'ended';"
    "CREATE INDEX leases_by_peer ON leases(peer, ended_ms) WHERE state = 'ended';"
    "CREATE TABLE footprints(peer TEXT NOT NULL, agent TEXT NOT NULL, model_type TEXT NOT NULL,"
    "  runs TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY(peer, agent, model_type))"
    "  WITHOUT ROWID;"
    "CREATE INDEX footprints_by_time ON footprints(at_ms);"
    "CREATE TABLE state(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;";

// kMigrations[v - 1] turns version v of the file into v + 1. A new file has the last version.
inline constexpr const char* kMigrations[] = {
    "ALTER TABLE leases ADD COLUMN yield_asked_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE leases ADD COLUMN yield_freed_ms INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE leases ADD COLUMN yield_kept INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE leases ADD COLUMN peer TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE leases ADD COLUMN idempotency_key TEXT NOT NULL DEFAULT '';",
    "DROP INDEX leases_by_end;"
    "CREATE INDEX leases_by_end ON leases(ended_ms) WHERE state = 'ended';"
    "CREATE INDEX leases_by_peer ON leases(peer, ended_ms) WHERE state = 'ended';"
    "ALTER TABLE footprints RENAME TO footprints_of_all;"
    "CREATE TABLE footprints(peer TEXT NOT NULL, agent TEXT NOT NULL, model_type TEXT NOT NULL,"
    "  runs TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY(peer, agent, model_type))"
    "  WITHOUT ROWID;"
    "INSERT INTO footprints SELECT '', agent, model_type, runs, at_ms FROM footprints_of_all;"
    "DROP TABLE footprints_of_all;"
    "CREATE INDEX footprints_by_time ON footprints(at_ms);",
};
inline constexpr std::int64_t kVersion = std::int64_t{1} + std::size(kMigrations);

inline constexpr const char* kSaveLease =
    "INSERT OR REPLACE INTO leases VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

inline constexpr const char* kLiveLeases =
    "SELECT * FROM leases WHERE state <> 'ended' ORDER BY id";

// Throws internal where the file is damaged; the second also where it is of our version and a lease
// in force makes no sense.
void require_whole(Database& db);
void require_sound(Database& db, const Moment& at);

// The lease must be there until the statement was stepped.
void bind_lease(Statement& statement, const Lease& lease, const Moment& at);

// Reads a row of "SELECT * FROM leases". Throws internal for an invalid value: the file is damaged,
// or of another program.
Lease lease_from(const Statement& row, const Moment& at);

// "16 1073741824 0;32 2147483648 1": batch, bytes, whether memory ran out.
std::string footprints_text(std::span<const Footprint> runs);
std::vector<Footprint> footprints_from(std::string_view text);

}  // namespace sluice::broker
