#include "watch/history/history_store.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/sqlite/sqlite_file.h"
#include "watch/history/history_codec.h"

namespace sluice::watch {

namespace {

constexpr std::int64_t kPage = 8192;
constexpr std::int64_t kApplication = 0x536c7565;  // "Slue": marks our files

// kUpgrades[v] turns version v into v + 1. Metrics and devices are stored by name,
// so that the file outlives changes of the program's tables.
constexpr const char* kUpgrades[] = {
    "CREATE TABLE devices(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE metrics(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE samples(step INTEGER NOT NULL, device INTEGER NOT NULL, t INTEGER NOT NULL,"
    "  data BLOB NOT NULL, PRIMARY KEY(step, device, t)) WITHOUT ROWID;"
    "CREATE TABLE kept(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE state(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;",
};
static_assert(std::size(kUpgrades) == HistoryStore::kVersion);

constexpr const char* kSelectRow = "SELECT data FROM samples WHERE step=? AND device=? AND t=?";
constexpr const char* kUpsertRow =
    "INSERT INTO samples(step, device, t, data) VALUES(?, ?, ?, ?) "
    "ON CONFLICT(step, device, t) DO UPDATE SET data=excluded.data";
constexpr const char* kLastBatch = "SELECT value FROM state WHERE key='batch'";

void merge_entry(std::vector<Entry>& entries, std::uint32_t id, const Agg& agg) {
  for (auto& e : entries)
    if (e.id == id) return e.agg.merge(agg);
  entries.push_back({id, agg});
}

}  // namespace

HistoryStore HistoryStore::writer(const std::string& path, std::uint64_t max_bytes) {
  if (path != ":memory:") require_ours(inspect_sqlite(path), kApplication, kVersion);
  HistoryStore store(path, false);
  store.prepare_file(max_bytes);
  store.upgrade();
  store.load_metrics();
  return store;
}

HistoryStore HistoryStore::reader(const std::string& path) {
  HistoryStore store(path, true);
  store.load_metrics();
  return store;
}

void HistoryStore::prepare_file(std::uint64_t max_bytes) {
  db_.run(fmt::format("PRAGMA page_size={}", kPage));
  db_.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=4194304;");
  db_.run(fmt::format("PRAGMA max_page_count={}", max_bytes / kPage + 1));
}

void HistoryStore::upgrade() {
  Transaction all(db_);
  const auto version = db_.number("PRAGMA user_version");
  for (auto v = static_cast<std::size_t>(version); v < std::size(kUpgrades); ++v)
    db_.run(kUpgrades[v]);
  if (version < kVersion)
    db_.run(
        fmt::format("PRAGMA user_version={}; PRAGMA application_id={}", kVersion, kApplication));
  Statement add(db_, "INSERT OR IGNORE INTO metrics(name) VALUES(?)");
  for (const auto& m : device::metrics()) add.bind(m.name).step();
  all.commit();
}

void HistoryStore::load_metrics() {
  Statement s(db_, "SELECT id, name FROM metrics");
  while (s.step()) {
    const auto metric = device::find_metric(s.text(1));
    if (!metric) continue;  // of another version of the program: kept, not shown
    file_id_[static_cast<std::size_t>(*metric)] = s.number(0);
    metric_of_[s.number(0)] = static_cast<std::uint32_t>(*metric);
  }
}

// 0 when there is none and none is to be made.
std::int64_t HistoryStore::device_id(std::string_view name, bool create) {
  Statement find(db_, "SELECT id FROM devices WHERE name=?");
  find.bind(name);
  if (find.step()) return find.number(0);
  if (!create) return 0;
  Statement(db_, "INSERT INTO devices(name) VALUES(?)").bind(name).step();
  return sqlite3_last_insert_rowid(db_.get());
}

void HistoryStore::write(const Batch& batch) {
  Transaction all(db_);
  Statement select(db_, kSelectRow), upsert(db_, kUpsertRow);
  for (const auto& row : batch.rows) merge_row(select, upsert, row);
  Statement keep(db_, "INSERT OR REPLACE INTO kept(key, value) VALUES(?, ?)");
  for (const auto& [key, value] : batch.kept) keep.bind(key).bind(value).step();
  Statement(db_, "INSERT OR REPLACE INTO state(key, value) VALUES('batch', ?)")
      .bind(batch.number)
      .step();
  all.commit();
}

void HistoryStore::merge_row(Statement& select, Statement& upsert, const Row& row) {
  const std::int64_t device = device_id(row.device, true);
  const std::int64_t step_s = kResolutions[row.resolution].seconds;
  std::vector<Entry> entries;
  select.bind(step_s).bind(device).bind(row.t);
  while (select.step()) entries = decode(select.blob(0));
  for (const auto& e : row.entries)
    merge_entry(entries, static_cast<std::uint32_t>(file_id_[e.id]), e.agg);
  upsert.bind(step_s).bind(device).bind(row.t).bind_blob(encode(entries)).step();
}

void HistoryStore::expire(std::int64_t now_s) {
  Transaction all(db_);
  Statement remove(db_, "DELETE FROM samples WHERE step=? AND device=? AND t<?");
  Statement devices(db_, "SELECT id FROM devices");
  while (devices.step())
    for (const auto& resolution : kResolutions)
      remove.bind(resolution.seconds)
          .bind(devices.number(0))
          .bind(now_s - kept_for(resolution))
          .step();
  db_.run(
      "DELETE FROM devices WHERE NOT EXISTS (SELECT 1 FROM samples WHERE step=1 AND "
      "device=devices.id) AND NOT EXISTS (SELECT 1 FROM samples WHERE step=10 AND "
      "device=devices.id) AND NOT EXISTS (SELECT 1 FROM samples WHERE step=300 AND "
      "device=devices.id)");
  all.commit();
}

Row HistoryStore::to_row(std::string device, std::size_t resolution, const Statement& s, int t,
                         int data) const {
  Row row{std::move(device), resolution, s.number(t), {}};
  for (auto& e : decode(s.blob(data))) {
    const auto metric = metric_of_.find(e.id);
    if (metric != metric_of_.end()) row.entries.push_back({metric->second, e.agg});
  }
  return row;
}

std::int64_t HistoryStore::read(std::string_view device, std::size_t resolution, std::int64_t from,
                                std::int64_t to, std::vector<Row>& rows) {
  Transaction view(db_, "BEGIN");  // one view for the number and the rows
  const auto batch = db_.number(kLastBatch);
  if (const auto id = device_id(device, false); id != 0) {
    Statement s(db_, "SELECT t, data FROM samples WHERE step=? AND device=? AND t BETWEEN ? AND ?");
    s.bind(kResolutions[resolution].seconds).bind(id).bind(from).bind(to);
    while (s.step()) rows.push_back(to_row(std::string(device), resolution, s, 0, 1));
  }
  view.commit();
  return batch;
}

std::int64_t HistoryStore::last_batch() { return db_.number(kLastBatch); }

std::vector<std::string> HistoryStore::devices() {
  std::vector<std::string> names;
  Statement s(db_, "SELECT name FROM devices ORDER BY name");
  while (s.step()) names.push_back(s.text(0));
  return names;
}

std::optional<std::string> HistoryStore::kept(std::string_view key) {
  Statement s(db_, "SELECT value FROM kept WHERE key=?");
  s.bind(key);
  return s.step() ? std::optional(s.text(0)) : std::nullopt;
}

std::string HistoryStore::damage() {
  std::string verdict = db_.text("PRAGMA quick_check(1)");
  std::ranges::replace(verdict, '\n', ' ');
  return verdict == "ok" ? "" : verdict;
}

Batch HistoryStore::everything(std::int64_t number) {
  Batch batch{number, {}, {}};
  for (std::size_t resolution = 0; resolution < kResolutions.size(); ++resolution) {
    Statement s(db_,
                "SELECT devices.name, t, data FROM samples JOIN devices ON "
                "devices.id=samples.device WHERE step=?");
    s.bind(kResolutions[resolution].seconds);
    while (s.step()) batch.rows.push_back(to_row(s.text(0), resolution, s, 1, 2));
  }
  Statement kept(db_, "SELECT key, value FROM kept");
  while (kept.step()) batch.kept[kept.text(0)] = kept.text(1);
  return batch;
}

void HistoryStore::clear() { db_.run("DELETE FROM samples; DELETE FROM kept"); }

}  // namespace sluice::watch
