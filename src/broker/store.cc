#include "broker/store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "broker/store_lock.h"
#include "broker/store_rows.h"
#include "watch/sqlite.h"

namespace sluice::broker {

namespace fs = std::filesystem;
using watch::Database;
using watch::Statement;
using watch::Transaction;

namespace {

constexpr std::int64_t kApplication = 0x536c6c73;  // "Slls": marks our files
constexpr std::size_t kMostFootprints = 4096;      // agents and model types
constexpr int kForgetAtOnce = 256;

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw Error(Code::unavailable,
              fmt::format("{} cannot be used: {}. Nothing was changed. Put a good copy in its "
                          "place, or move it away with the -wal and -shm files beside it to begin "
                          "without leases; holders then hear that theirs are unknown",
                          path, why));
}

// The file holds the holders' secrets: for our eyes only, and so SQLite's beside it.
void make_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) throw Error(Code::unavailable, path + ": " + std::strerror(errno));
  ::fchmod(fd, 0600);
  ::close(fd);
}

// The file is ours alone, so nobody has it locked for long; and the broker waits meanwhile.
constexpr int kPatience_ms = 50;

void prepare(Database& db) {
  sqlite3_busy_timeout(db.get(), kPatience_ms);
  db.run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0");
}

// Makes the tables, or sees that they are ours and whole.
void settle_schema(Database& db) {
  Transaction all(db);
  const auto tables = db.number("SELECT count(*) FROM sqlite_master");
  const auto version = db.number("PRAGMA user_version");
  if (tables > 0 && db.number("PRAGMA application_id") != kApplication)
    throw Error(Code::internal, "it was made by another program");
  if (version > kVersion)
    throw Error(Code::internal,
                fmt::format("it has version {}, this program knows {}", version, kVersion));
  if (const auto verdict = db.text("PRAGMA quick_check(1)"); verdict != "ok")
    throw Error(Code::internal, "it is damaged: " + verdict.substr(0, verdict.find('\n')));
  if (version == 0) db.run(kCreateTables);
  for (auto v = version; v > 0 && v < kVersion; ++v)
    db.run(kMigrations[static_cast<std::size_t>(v - 1)]);
  db.run(fmt::format("PRAGMA user_version={}; PRAGMA application_id={}", kVersion, kApplication));
  all.commit();
}

}  // namespace

WallTime wall_of(Instant t, const Moment& moment) {
  return moment.wall + std::chrono::duration_cast<WallTime::duration>(t - moment.now);
}

Instant instant_of(std::int64_t wall_ms, const Moment& moment) {
  return moment.now + std::chrono::milliseconds(wall_ms - unix_ms(moment.wall));
}

struct Store::Impl {
  explicit Impl(Options o);
  ~Impl() { thread = {}; }  // before the connections that it uses

  void open();
  Past read_past(Statement& rows, const Moment& at);
  void checkpoint_loop(std::stop_token stop);
  void checkpoint();
  bool copy_pages();  // true when next to nothing of the log is left to copy
  static int after_commit(void* self, sqlite3*, const char*, int pages);

  const Options options;
  std::optional<StoreLock> lock;
  bool begins_anew = false;  // leases were kept here before, in a file that is gone
  std::unique_ptr<Database> db, checkpointer;
  std::unique_ptr<Database> reader, finder;  // absent in memory

  // Statements are made once; the writer's are under the broker's lock and this one,
  // which the last step of a checkpoint takes too.
  Mutex writing;
  std::optional<Statement> save, forget;
  std::size_t ended GUARDED_BY(writing) = 0;  // rows, about

  mutable Mutex reading, finding;            // a long look back holds up no short one
  std::atomic<std::size_t> damaged_told{0};  // said once, not with every look

  Mutex waking;
  std::condition_variable_any woken;
  bool due GUARDED_BY(waking) = false;
  std::jthread thread;
};

Store::Impl::Impl(Options o) : options(std::move(o)) {
  open();
  save.emplace(*db, kSaveLease);
  forget.emplace(*db,
                 "DELETE FROM leases WHERE id IN (SELECT id FROM leases WHERE ended_ms > 0 AND "
                 "ended_ms < ? AND id < (SELECT max(id) FROM leases) ORDER BY ended_ms LIMIT ?)");
  const Lock guard(writing);
  ended = static_cast<std::size_t>(db->number("SELECT count(*) FROM leases WHERE ended_ms > 0"));
  if (options.dir.empty()) return;
  sqlite3_wal_hook(db->get(), after_commit, this);
  thread = std::jthread([this](std::stop_token stop) { checkpoint_loop(stop); });
}

void Store::Impl::open() {
  if (options.dir.empty()) {
    db = std::make_unique<Database>(":memory:", false);
    return settle_schema(*db);
  }
  std::error_code failed;
  fs::create_directories(options.dir, failed);
  if (failed) throw Error(Code::unavailable, options.dir + ": " + failed.message());
  const auto path = options.dir + "/leases.db";
  lock.emplace(options.dir + "/leases.lock");
  const bool is_there = fs::exists(path, failed);
  if (lock->was_used() && is_there && fs::file_size(path, failed) == 0)
    refuse(path, "it is empty, though leases were kept in it");
  begins_anew = lock->was_used() && !is_there;
  if (begins_anew) log::warn("leases: {} is gone; begins without leases", path);
  make_private(path);
  try {
    db = std::make_unique<Database>(path, false);
    prepare(*db);
    settle_schema(*db);
    checkpointer = std::make_unique<Database>(path, false);
    prepare(*checkpointer);
    reader = std::make_unique<Database>(path, true);
    finder = std::make_unique<Database>(path, true);
  } catch (const Error& e) {
    if (e.code() == Code::internal) refuse(path, e.reason());
    throw Error(Code::unavailable, fmt::format("{}: {}", path, e.reason()));
  }
  lock->sign();
}

// ---- checkpoints

int Store::Impl::after_commit(void* self, sqlite3*, const char*, int pages) {
  auto& store = *static_cast<Impl*>(self);
  if (pages < store.options.checkpoint_pages) return SQLITE_OK;
  const Lock guard(store.waking);
  if (!std::exchange(store.due, true)) store.woken.notify_one();
  return SQLITE_OK;
}

void Store::Impl::checkpoint_loop(std::stop_token stop) {
  while (true) {
    {
      const Lock guard(waking);
      if (!woken.wait(waking, stop, [this]() REQUIRES(waking) { return due; })) return;
      due = false;
    }
    try {
      checkpoint();
    } catch (const Error& e) {
      log::warn("leases: the log cannot be merged into the file: {}", e.what());
      const Lock guard(waking);
      woken.wait_for(waking, stop, std::chrono::seconds(1), [] { return false; });
    }
  }
}

// Most of the log is copied while the broker goes on writing. The log starts over only
// when nothing of it is left, so the rest is copied while the writer waits: a
// few pages, and the disk's answer.
void Store::Impl::checkpoint() {
  for (int pass = 0; pass < 4 && !copy_pages(); ++pass) continue;
  const Lock guard(writing);
  copy_pages();
}

bool Store::Impl::copy_pages() {
  constexpr int kFew = 64;
  int in_log = 0, copied = 0;
  const int code = sqlite3_wal_checkpoint_v2(checkpointer->get(), nullptr,
                                             SQLITE_CHECKPOINT_PASSIVE, &in_log, &copied);
  if (code != SQLITE_OK && code != SQLITE_BUSY) checkpointer->fail(code, "checkpoint");
  return in_log - copied <= kFew;
}

// ---- the contract

Store::Store(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Store::~Store() = default;

Store::Loaded Store::load(const Moment& at) {
  Loaded out;
  auto& db = *impl_->db;
  try {
    Statement live(db, "SELECT * FROM leases WHERE state <> 'ended' ORDER BY id");
    while (live.step()) out.leases.push_back(lease_from(live, at));
    Statement runs(db, "SELECT agent, model_type, runs FROM footprints");
    while (runs.step())
      out.footprints[{runs.text(0), runs.text(1)}] = footprints_from(runs.text(2));
  } catch (const Error& e) {
    if (e.code() != Code::internal || impl_->options.dir.empty()) throw;
    refuse(impl_->options.dir + "/leases.db", e.reason());
  }
  if (std::exchange(impl_->begins_anew, false))
    Statement(db, "INSERT OR REPLACE INTO state VALUES('numbers_from', ?)")
        .bind(std::to_string(unix_ms(at.wall)))
        .step();
  out.last_id =
      static_cast<LeaseId>(db.number("SELECT max((SELECT coalesce(max(id), 0) FROM leases), "
                                     "(SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM state "
                                     "WHERE key='numbers_from'))"));
  out.same_boot = !impl_->options.boot_id.empty() &&
                  db.text("SELECT value FROM state WHERE key='boot'") == impl_->options.boot_id;
  return out;
}

void Store::remember_boot() {
  const Lock guard(impl_->writing);
  Statement(*impl_->db, "INSERT OR REPLACE INTO state VALUES('boot', ?)")
      .bind(impl_->options.boot_id)
      .step();
}

void Store::write(std::span<const Lease* const> leases, const Moment& at) {
  if (leases.empty()) return;
  const Lock guard(impl_->writing);
  std::optional<Transaction> all;
  const auto over = static_cast<std::size_t>(
      std::ranges::count(leases, State::ended, [](const Lease* l) { return l->state; }));
  const bool full = impl_->ended + over > impl_->options.keep_ended;
  if (leases.size() > 1 || full) all.emplace(*impl_->db);
  for (const auto* lease : leases) {
    bind_lease(*impl_->save, *lease, at);
    impl_->save->step();
  }
  std::size_t gone = 0;
  if (full) {  // two for one, so that it shrinks where it has grown past the limit
    impl_->forget->bind(unix_ms(at.wall)).bind(static_cast<std::int64_t>(2 * over)).step();
    gone = static_cast<std::size_t>(sqlite3_changes(impl_->db->get()));
  }
  if (all) all->commit();
  impl_->ended += over;
  impl_->ended -= std::min(gone, impl_->ended);
}

void Store::write(const FootprintKey& key, std::span<const Footprint> runs, const Moment& at) {
  const Lock guard(impl_->writing);
  Statement(*impl_->db, "INSERT OR REPLACE INTO footprints VALUES(?, ?, ?, ?)")
      .bind(key.agent)
      .bind(key.model_type)
      .bind(footprints_text(runs))
      .bind(unix_ms(at.wall))
      .step();
}

void Store::forget_old(const Moment& at) {
  const Lock guard(impl_->writing);
  const auto before = unix_ms(at.wall - impl_->options.keep_for);
  impl_->forget->bind(before).bind(std::int64_t{kForgetAtOnce}).step();
  Statement(*impl_->db,
            "DELETE FROM footprints WHERE (agent, model_type) IN (SELECT agent, model_type FROM "
            "footprints ORDER BY at_ms DESC LIMIT -1 OFFSET ?)")
      .bind(static_cast<std::int64_t>(kMostFootprints))
      .step();
  impl_->ended =
      static_cast<std::size_t>(impl_->db->number("SELECT count(*) FROM leases WHERE ended_ms > 0"));
}

std::optional<Lease> Store::find(LeaseId id, const Moment& at) const {
  const Lock guard(impl_->finder ? impl_->finding : impl_->writing);
  Statement s(impl_->finder ? *impl_->finder : *impl_->db, "SELECT * FROM leases WHERE id=?");
  s.bind(static_cast<std::int64_t>(id));
  return s.step() ? std::optional(lease_from(s, at)) : std::nullopt;
}

// A row that makes no sense costs itself only; one that cannot be read, those older than it.
Store::Past Store::Impl::read_past(Statement& rows, const Moment& at) {
  Past past;
  const auto skip = [&](const std::string& which, const Error& e) {
    if (e.code() != Code::internal) throw e;
    if (++past.damaged > damaged_told) log::warn("leases: {} is damaged: {}", which, e.reason());
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
  if (past.damaged > damaged_told) damaged_told = past.damaged;
  std::ranges::reverse(past.leases);
  return past;
}

Store::Past Store::between(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit,
                           const Moment& at, LeaseId before) const {
  const Lock guard(impl_->reader ? impl_->reading : impl_->writing);
  Statement s(impl_->reader ? *impl_->reader : *impl_->db,
              "SELECT * FROM leases WHERE asked_ms <= ? AND (ended_ms = 0 OR ended_ms >= ?) "
              "AND id < ? ORDER BY id DESC LIMIT ?");
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  s.bind(to_ms).bind(from_ms);
  s.bind(before == 0 ? kAll : static_cast<std::int64_t>(before));
  s.bind(static_cast<std::int64_t>(limit));
  return impl_->read_past(s, at);
}

}  // namespace sluice::broker
