#include "broker/store/stored_rows.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/sqlite/checked_row.h"
#include "broker/store/store_rows.h"

namespace sluice::broker {

namespace {

constexpr const char* kAllFootprints =
    "SELECT peer, agent, model_type, runs, at_ms, checksum FROM footprints ORDER BY +at_ms DESC";
constexpr const char* kAllState = "SELECT key, value, checksum FROM state";
constexpr int kFootprintColumns = 5, kStateColumns = 2;

void read_leases(Database& db, const Moment& at, StoredRows& out) {
  Statement rows(db, "SELECT * FROM leases ORDER BY id");
  while (rows.step()) {
    const bool is_good = is_whole(rows, kLeaseColumns);
    if (!is_good) out.damaged_leases.push_back(rows.number(0));
    if (is_good && rows.view(3) != "ended") out.live.push_back(lease_from(rows, at));
    const auto id = static_cast<LeaseId>(std::max(rows.number(0), std::int64_t{0}));
    if (id > kLastId) continue;
    auto& last = is_good ? out.last : out.last_damaged;
    last = std::max(last, id);
  }
}

void read_footprints(Database& db, StoredRows& out) {
  Statement rows(db, kAllFootprints);
  while (rows.step()) {
    if (!is_whole(rows, kFootprintColumns))
      ++out.damaged_footprints;
    else if (out.footprints.size() < kMaxFootprints)
      out.footprints[{rows.text(0), rows.text(1), rows.text(2)}] = {footprints_from(rows.view(3)),
                                                                    rows.number(4)};
  }
}

void read_state(Database& db, StoredRows& out) {
  Statement rows(db, kAllState);
  while (rows.step()) {
    if (!is_whole(rows, kStateColumns))
      out.is_state_damaged = true;
    else if (rows.view(0) == "boot")
      out.boot = rows.text(1);
  }
}

void save_all(Database& db, const Footprints& footprints, const std::optional<std::string>& boot) {
  Statement footprint(db, kSaveFootprint), state(db, kSaveState);
  for (const auto& [key, runs] : footprints)
    save_footprint(footprint, key, footprints_text(runs.runs), runs.at_ms);
  if (boot) save_state(state, "boot", *boot);
}

}  // namespace

StoredRows read_rows(Database& db, const Moment& at) {
  StoredRows out;
  read_leases(db, at, out);
  read_footprints(db, out);
  read_state(db, out);
  return out;
}

std::vector<std::string> damage_in(const StoredRows& rows) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> found;
  if (const auto count = rows.damaged_leases.size(); count > 0) {
    const auto named = std::span(rows.damaged_leases).first(std::min(count, kNamed));
    found.push_back(
        fmt::format("leases.db: leases do not agree with their checksum and are dropped: {}{}",
                    fmt::join(named, ", "), count > kNamed ? fmt::format(" of {}", count) : ""));
  }
  if (rows.damaged_footprints > 0)
    found.push_back(fmt::format(
        "leases.db: reports of memory use do not agree with their checksum and are dropped: {}",
        rows.damaged_footprints));
  if (rows.is_state_damaged)
    found.emplace_back(
        "leases.db: the record of the boot does not agree with its checksum; processes are "
        "recognized by their start times");
  return found;
}

// An index may have the value from before the damage, and a row is then not deleted.
void drop_damaged(Database& db, const StoredRows& rows) {
  Transaction all(db);
  if (!rows.damaged_leases.empty()) db.run("REINDEX leases");
  Statement lease(db, "DELETE FROM leases WHERE id = ?");
  for (const auto id : rows.damaged_leases) lease.bind(id).step();
  if (rows.damaged_footprints > 0) db.run("REINDEX footprints; DELETE FROM footprints");
  if (rows.is_state_damaged) db.run("DELETE FROM state");
  if (rows.damaged_footprints > 0 || rows.is_state_damaged)
    save_all(db, rows.footprints, rows.boot);
  all.commit();
}

void seal_rows(Database& db) {
  std::vector<std::pair<std::int64_t, std::int64_t>> sums;
  {
    Statement rows(db, "SELECT * FROM leases");
    while (rows.step()) sums.emplace_back(rows.number(0), checksum_of(rows, kLeaseColumns));
  }
  Statement seal(db, "UPDATE leases SET checksum = ? WHERE id = ?");
  for (const auto& [id, sum] : sums) seal.bind(sum).bind(id).step();
  StoredRows others;
  {
    Statement rows(db, kAllFootprints);
    while (rows.step())
      others.footprints[{rows.text(0), rows.text(1), rows.text(2)}] = {
          footprints_from(rows.view(3)), rows.number(4)};
  }
  if (Statement boot(db, "SELECT value FROM state WHERE key = 'boot'"); boot.step())
    others.boot = boot.text(0);
  db.run("DELETE FROM state");
  save_all(db, others.footprints, others.boot);
}

// A row that makes no sense costs itself only; one that cannot be read, those older than it.
Store::Past read_past(Statement& rows, const Moment& at, std::atomic<std::size_t>& reported) {
  Store::Past past;
  const auto skip = [&](const std::string& which, const Error& e) {
    if (e.code() != Code::internal) throw e;
    if (++past.damaged > reported) log::warn("leases: {} is damaged: {}", which, e.reason());
  };
  try {
    while (rows.step()) {
      past.first = static_cast<LeaseId>(rows.number(0));
      try {
        past.leases.push_back(lease_from(rows, at));
      } catch (const Error& e) {
        skip(fmt::format("the row of lease {}", rows.number(0)), e);
      }
    }
  } catch (const Error& e) {
    skip("leases.db", e);
  }
  if (past.damaged > reported) reported = past.damaged;
  std::ranges::reverse(past.leases);
  return past;
}

void write_rows(Database& db, std::span<const Lease* const> leases, const Footprints& footprints,
                const std::string& boot, const Moment& at) {
  Transaction all(db);
  Statement save(db, kSaveLease), report(db, kSaveFootprint), state(db, kSaveState);
  for (const auto* lease : leases) {
    bind_lease(save, *lease, at);
    save.step();
  }
  for (const auto& [key, runs] : footprints)
    save_footprint(report, key, footprints_text(runs.runs), runs.at_ms);
  save_state(state, "boot", boot);
  all.commit();
}

}  // namespace sluice::broker
