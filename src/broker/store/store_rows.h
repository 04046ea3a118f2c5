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
// what is an enum, so that the file can be read without this program. The last column of each
// table is a checksum over the others (base/sqlite/checked_row.h).
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
    "  idempotency_key TEXT NOT NULL DEFAULT '', checksum INTEGER NOT NULL);"
    "CREATE INDEX leases_by_end ON leases(ended_ms) WHERE state = 'ended';"
    "CREATE INDEX leases_by_peer ON leases(peer, ended_ms) WHERE state = 'ended';"
    "CREATE TABLE footprints(peer TEXT NOT NULL, agent TEXT NOT NULL, model_type TEXT NOT NULL,"
    "  runs TEXT NOT NULL, at_ms INTEGER NOT NULL, checksum INTEGER NOT NULL,"
    "  PRIMARY KEY(peer, agent, model_type)) WITHOUT ROWID;"
    "CREATE INDEX footprints_by_time ON footprints(at_ms);"
    "CREATE TABLE state(key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL)"
    "  WITHOUT ROWID;";

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
    // seal_rows() fills them.
    "ALTER TABLE leases ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE footprints ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE state ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;",
};
inline constexpr std::int64_t kVersion = std::int64_t{1} + std::size(kMigrations);
inline constexpr std::int64_t kFirstWithChecksums = 6;
inline constexpr std::int64_t kFirstWithMark = 6;  // surely; some earlier files have one, too

inline constexpr const char* kSaveLease =
    "INSERT OR REPLACE INTO leases VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
// The oldest that ended. The state of the row itself counts: an index that is damaged must not name
// a lease in force.
inline constexpr const char* kForgetLeases =
    "DELETE FROM leases WHERE +state = 'ended' AND id IN (SELECT id FROM leases WHERE "
    "state = 'ended' AND ended_ms < ? AND id < (SELECT max(id) FROM leases) ORDER BY ended_ms "
    "LIMIT ?)";
inline constexpr const char* kForgetLeasesOfPeer =
    "DELETE FROM leases WHERE +state = 'ended' AND id IN (SELECT id FROM leases WHERE peer = ? AND "
    "state = 'ended' AND ended_ms < ? AND id < (SELECT max(id) FROM leases) ORDER BY ended_ms "
    "LIMIT ?)";
inline constexpr const char* kForgetFootprints =
    "DELETE FROM footprints WHERE (peer, agent, model_type) IN (SELECT peer, agent, model_type "
    "FROM footprints ORDER BY at_ms LIMIT ?)";
inline constexpr int kLeaseColumns = 36;  // without the checksum
inline constexpr const char* kSaveFootprint =
    "INSERT OR REPLACE INTO footprints VALUES(?, ?, ?, ?, ?, ?)";
inline constexpr const char* kSaveState = "INSERT OR REPLACE INTO state VALUES(?, ?, ?)";

inline constexpr LeaseId kLastId = LeaseId{1} << 62;  // of a sound row: more follow it

// Throws internal where the structure of the file is damaged.
void require_whole(Database& db);

// Makes the tables, or sees that they are whole and brings them up to date. Returns false where
// there was nothing to change.
bool settle_schema(Database& db);

// The lease must be there until the statement was stepped.
void bind_lease(Statement& statement, const Lease& lease, const Moment& at);

// Reads a row of "SELECT * FROM leases". Throws internal where the checksum does not agree, and for
// an invalid value: the file is damaged, or of another program.
Lease lease_from(const Statement& row, const Moment& at);

void save_footprint(Statement& statement, const FootprintKey& key, std::string_view runs,
                    std::int64_t at_ms);
void save_state(Statement& statement, std::string_view key, std::string_view value);

// "16 1073741824 0;32 2147483648 1": batch, bytes, whether memory ran out.
std::string footprints_text(std::span<const Footprint> runs);
std::vector<Footprint> footprints_from(std::string_view text);

}  // namespace sluice::broker
