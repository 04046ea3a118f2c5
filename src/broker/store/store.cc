#include "broker/store/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/sqlite/sqlite.h"
#include "broker/store/connection.h"
#include "broker/store/ended_rows.h"
#include "broker/store/open_files.h"
#include "broker/store/store_folder.h"
#include "broker/store/store_rows.h"
#include "broker/store/stored_rows.h"

namespace sluice::broker {

namespace fs = std::filesystem;

namespace {

constexpr int kForgetAtOnce = 256;

// At the rate of one a microsecond, which is out of reach, numbers would keep up with the clock.
LeaseId first_number(WallTime now) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return static_cast<LeaseId>(std::max(us.count(), decltype(us.count()){0}));
}
constexpr LeaseId kBlock = 65536;  // numbers reserved at once: a wait for the disk for so many
constexpr auto kPause = std::chrono::milliseconds(100), kFilesEvery = kPause * 10;

// The last pass of a checkpoint holds up all leases while it waits for the disk. Where the pass
// before took longer than this, the log grows instead, up to so many times its size.
constexpr auto kMaxHold = std::chrono::milliseconds(50);
constexpr int kMaxGrowth = 8;

}  // namespace

WallTime wall_of(Instant t, const Moment& moment) {
  return moment.wall + std::chrono::duration_cast<WallTime::duration>(t - moment.now);
}

Instant instant_of(std::int64_t wall_ms, const Moment& moment) {
  return moment.now + std::chrono::milliseconds(wall_ms - unix_ms(moment.wall));
}

struct Store::Impl {
  explicit Impl(Options o);
  ~Impl();

  void open();
  void open_file(const std::string& path);
  void close_all();
  void close_damaged();
  void report_and_drop(const StoredRows& rows);
  void work(std::stop_token stop);
  bool checkpoint();
  void look_at_files() noexcept;
  void look_at_log();
  void require_files() const;
  void require_whole();
  void refuse_log();
  bool find_damage() noexcept;
  void require_reserved(LeaseId id);
  void reserve_above(LeaseId id);
  int copy_pages();  // returns how many of the log are left
  static int after_commit(void* self, sqlite3*, const char*, int pages);

  const Options options;
  std::optional<StoreFolder> folder;  // this and the next are absent in memory
  std::optional<OpenFiles> files;     // outlives the databases
  std::string trouble;                // with them, as it was reported last
  std::optional<WalCheck> check;      // has read what was merged of the log
  bool has_anew = false;              // write_anew() has written the leases to another file
  std::unique_ptr<Database> db, checkpointer;
  std::unique_ptr<Database> reader, finder;  // absent in memory

  // Statements are made once; the writer's are under the broker's lock and this one,
  // which the last step of a checkpoint takes too.
  Mutex writing;
  std::optional<Statement> save, forget;
  std::optional<EndedRows> ended GUARDED_BY(writing);

  mutable Mutex reading, finding;  // a long look back holds up no short one
  // Readers pass through it, so that those who read without pause let a checkpoint in: a mutex
  // alone is often taken again by the thread that gave it back.
  mutable Mutex entrance;
  std::atomic<std::size_t> damaged_reported{0};  // logged once

  std::atomic<LeaseId> reserved{0};  // no number above is in use
  Mutex reserving;                   // taken after `writing`
  std::atomic<int> frames{0};        // in the log; changed under `writing`

  struct Tasks {  // for the thread; set under `waking`
    std::atomic<bool> checkpoint{false}, reserve{false};
    bool any() const { return checkpoint || reserve; }
  };
  void wake(std::atomic<bool> Tasks::*task);
  Mutex waking;
  std::condition_variable_any woken;
  Tasks due;
  std::jthread thread;
};

Store::Impl::Impl(Options o) : options(std::move(o)) {
  open();
  save.emplace(*db, kSaveLease);
  forget.emplace(*db, kForgetLeases);
  const Lock guard(writing);
  ended.emplace(*db);
  if (!folder) return;
  thread = std::jthread([this](std::stop_token stop) { work(stop); });
}

// The last connection that closes merges the log and removes it; then there is none to miss.
Store::Impl::~Impl() {
  thread = {};
  if (!folder) return;
  if (find_damage()) {
    close_damaged();
    return;
  }
  const bool is_anew = files->needs_copy() && folder->write_anew(*db);
  const bool is_elsewhere = !files->has_database();
  close_all();
  if (is_anew) folder->put_anew(reserved);
  std::error_code failed;
  if (is_elsewhere || fs::exists(folder->database() + "-wal", failed) || failed) return;
  folder->mark().note(std::nullopt);
  folder->mark().sync();
}

// Neither the file nor its log is written to.
void Store::Impl::close_damaged() {
  merge_on_close(*db, false);
  close_all();
  if (has_anew && folder->put_aside()) folder->put_anew(reserved);
}

void Store::Impl::close_all() {
  save.reset(), forget.reset();
  {
    const Lock guard(writing);
    ended.reset();
  }
  finder.reset(), reader.reset(), checkpointer.reset(), db.reset();
}

void Store::Impl::open() {
  if (options.dir.empty()) {
    db = std::make_unique<Database>(":memory:", false);
    settle_schema(*db);
    return;
  }
  folder.emplace(options.dir);
  const auto path = folder->database();
  std::error_code ignored;
  const bool has_log = fs::exists(path + "-wal", ignored);
  try {
    open_file(path);
  } catch (const Error& e) {
    close_all();
    if (!has_log) fs::remove(path + "-wal", ignored);
    if (e.code() == Code::internal) refuse_store(path, e.reason());
    throw Error(Code::unavailable, fmt::format("{}: {}", path, e.reason()));
  }
  folder->sign();
  fs::remove(path + "-shm", ignored);  // of an earlier version, which shared its index
  files.emplace(options.dir);
  check.emplace(files->log());
}

void Store::Impl::open_file(const std::string& path) {
  make_private(path);
  db = std::make_unique<Database>(path, false);
  merge_on_close(*db, false);
  prepare(*db, options.durability);
  // Merged, so that the file shows its version when the log is lost; later where it cannot be now.
  if (settle_schema(*db))
    sqlite3_wal_checkpoint_v2(db->get(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  sqlite3_wal_hook(db->get(), after_commit, this);
  checkpointer = std::make_unique<Database>(path, false);
  prepare(*checkpointer, Durability::process);
  reader = std::make_unique<Database>(path, true);
  finder = std::make_unique<Database>(path, true);
  merge_on_close(*db, true);
}

// ---- the thread: checkpoints, numbers, and where the log ends

int Store::Impl::after_commit(void* self, sqlite3*, const char*, int pages) {
  auto& store = *static_cast<Impl*>(self);
  store.frames = pages;
  if (store.files)
    if (const auto end = store.files->log_was_written(static_cast<unsigned>(pages)))
      store.folder->mark().note(end);  // for the next start: so much of the log there has to be
  if (pages >= store.options.checkpoint_pages) store.wake(&Tasks::checkpoint);
  return SQLITE_OK;
}

void Store::Impl::wake(std::atomic<bool> Tasks::*task) {
  if (due.*task) return;  // most often: every commit comes here
  const Lock guard(waking);
  due.*task = true;
  woken.notify_one();
}

void Store::Impl::work(std::stop_token stop) {
  while (true) {
    {
      const Lock guard(waking);
      woken.wait_for(waking, stop, kFilesEvery, [this]() { return due.any(); });
      if (stop.stop_requested()) return;
    }
    std::chrono::milliseconds pause = kPause;
    try {
      look_at_log();
      look_at_files();
      if (due.reserve.exchange(false)) reserve_above(reserved);
      if (due.checkpoint) {
        const bool is_done = checkpoint();
        due.checkpoint = !is_done;  // what came meanwhile was for a log that is empty now
        if (!is_done) pause = kFilesEvery;
      }
    } catch (const Error& e) {
      log::warn("leases: the log cannot be merged into the file, or no numbers reserved: {}",
                e.what());
      pause = std::chrono::seconds(1);
      due.checkpoint = false;
    }
    const Lock guard(waking);
    const bool is_late = pause > kPause;
    woken.wait_for(waking, stop, pause,
                   [&]() { return due.reserve || (due.checkpoint && !is_late); });
  }
}

void Store::Impl::look_at_files() noexcept try {
  files->look();
  folder->write_report();
  if (files->trouble() == trouble) return;
  trouble = files->trouble();
  if (trouble.empty())
    log::info("leases: the files are in their places again");
  else if (files->is_removed() || files->is_damaged())
    folder->report(trouble);
  else
    log::error("leases: {}", trouble);
} catch (const std::exception& e) {
  log::warn("leases: the files could not be looked at: {}", e.what());
}

// At where it begins; all of it is read before it is merged.
void Store::Impl::look_at_log() {
  const Lock no_write(writing);
  if (!files->has_log_header()) files->set_log_damaged();
}

// Throws unavailable where the content is not what was written: SQLite would copy it.
void Store::Impl::require_whole() {
  look_at_files();
  require_files();
  if (files->is_log_whole(*check)) return;
  const Lock guard(writing);  // it may have begun anew while it was read
  check.emplace(files->log());
  if (!files->is_log_whole(*check)) refuse_log();
}

// When nobody else uses the store.
bool Store::Impl::find_damage() noexcept try {
  look_at_files();
  if (!files->is_log_whole(*check)) files->set_log_damaged();
  look_at_files();
  return files->is_damaged();
} catch (const std::exception& e) {
  log::warn("leases: the log cannot be read: {}", e.what());
  return files->is_damaged();
}

void Store::Impl::refuse_log() {
  files->set_log_damaged();
  look_at_files();
  require_files();
}

// The next block is reserved before this one is used up, so that no caller waits for it.
void Store::Impl::require_reserved(LeaseId id) {
  if (id > reserved)
    reserve_above(id);
  else if (reserved - id < kBlock / 2)
    wake(&Tasks::reserve);
}

// Waits for the disk.
void Store::Impl::reserve_above(LeaseId id) {
  const Lock guard(reserving);
  if (reserved > id) return;  // somebody else has, meanwhile
  const auto last = std::max(id, reserved.load()) + kBlock;
  folder->mark().reserve(last);
  reserved = last;
}

// Most of the log is copied while the broker goes on writing. The log starts over only
// when nothing of it is left and nobody reads from it, so the rest is copied while readers and the
// writer wait: a few pages, and the disk's answer. Readers that begin afterwards read the file
// alone. On a slow disk the log starts over when a pass without the locks happens to copy all of
// it. False where that is awaited.
bool Store::Impl::checkpoint() {
  constexpr int kFew = 64, kPasses = 4;
  const bool is_too_long = frames >= kMaxGrowth * options.checkpoint_pages;
  auto took = Steady::duration::zero();
  int left = kFew + 1;
  for (int pass = 0; pass < (is_too_long ? 1 : kPasses) && left > kFew; ++pass) {
    require_whole();
    const auto begun = Steady::now();
    left = copy_pages();
    took = Steady::now() - begun;
  }
  if (took > kMaxHold && !is_too_long) return left <= 0;  // below 0: it has begun anew
  const Lock no_reader(entrance), no_timeline(reading), no_look_up(finding), no_write(writing);
  if (!files->is_log_whole(*check)) refuse_log();
  copy_pages();
  return true;
}

int Store::Impl::copy_pages() {
  int copied = 0;
  const int code = sqlite3_wal_checkpoint_v2(checkpointer->get(), nullptr,
                                             SQLITE_CHECKPOINT_PASSIVE, nullptr, &copied);
  files->database_was_written();
  if (code != SQLITE_OK && code != SQLITE_BUSY) checkpointer->fail(code, "checkpoint");
  return frames - copied;  // SQLite counts those that were there when it began
}

// ---- the contract

Store::Store(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Store::~Store() = default;

Store::Loaded Store::load(const Moment& at) {
  StoredRows rows;
  try {
    rows = read_rows(*impl_->db, at);
  } catch (const Error& e) {
    if (e.code() != Code::internal || !impl_->folder) throw;
    refuse_store(impl_->folder->database(), e.reason());
  }
  Loaded out;
  out.last_id = std::max(first_number(at.wall), rows.last);
  if (impl_->folder) {
    // What is reserved is above each number that was given; a damaged number may be any.
    out.last_id =
        std::max(out.last_id, impl_->folder->marked().reserved.value_or(rows.last_damaged));
    impl_->reserve_above(out.last_id);
  }
  impl_->report_and_drop(rows);
  // Where the record is lost, start times alone tell: a process of an earlier boot has another one.
  const auto& boot_id = impl_->options.boot_id;
  out.same_boot = !boot_id.empty() && (rows.boot ? *rows.boot == boot_id : rows.is_state_damaged);
  out.leases = std::move(rows.live), out.footprints = std::move(rows.footprints);
  return out;
}

void Store::Impl::report_and_drop(const StoredRows& rows) {
  const auto found = damage_in(rows);
  if (found.empty() || !folder) return;
  const Lock guard(writing);
  folder->report_rows(found, *db);
  try {
    drop_damaged(*db, rows);
    ended->count();
  } catch (const Error& e) {  // a full disk; they are left out all the same
    log::warn("leases: damaged rows stay in the file: {}", e.what());
  }
}

void Store::Impl::require_files() const {
  if (files) files->require_in_place();
}

bool Store::has_its_files() const noexcept { return !impl_->files || impl_->files->are_in_place(); }

void Store::remember_boot() {
  const Lock guard(impl_->writing);
  Statement state(*impl_->db, kSaveState);
  save_state(state, "boot", impl_->options.boot_id);
}

void Store::write(std::span<const Lease* const> leases, const Moment& at) {
  if (leases.empty()) return;
  impl_->require_files();
  const Lock guard(impl_->writing);
  if (impl_->folder) impl_->require_reserved(std::ranges::max(leases, {}, &Lease::id)->id);
  std::optional<Transaction> all;
  const auto over = static_cast<std::size_t>(
      std::ranges::count(leases, State::ended, [](const Lease* l) { return l->state; }));
  const bool full = impl_->ended->total() + over > impl_->options.keep_ended;
  if (leases.size() > 1 || full) all.emplace(*impl_->db);
  for (const auto* lease : leases) {
    bind_lease(*impl_->save, *lease, at);
    impl_->save->step();
  }
  // Two for one, so that it shrinks where it has grown past the limit.
  const auto gone = full ? impl_->ended->forget(2 * over, at) : std::size_t{0};
  if (all) all->commit();
  if (over > 0 || gone > 0) impl_->ended->were_written(leases, gone);
}

void Store::write(const FootprintKey& key, std::span<const Footprint> runs, const Moment& at,
                  const FootprintKey* instead) {
  impl_->require_files();
  const Lock guard(impl_->writing);
  Transaction both(*impl_->db);
  if (instead != nullptr)
    Statement(*impl_->db, "DELETE FROM footprints WHERE peer=? AND agent=? AND model_type=?")
        .bind(instead->peer)
        .bind(instead->agent)
        .bind(instead->model_type)
        .step();
  Statement save(*impl_->db, kSaveFootprint);
  save_footprint(save, key, footprints_text(runs), unix_ms(at.wall));
  both.commit();
}

void Store::probe(const Moment& at) {
  impl_->require_files();
  const Lock guard(impl_->writing);
  Statement state(*impl_->db, kSaveState);
  save_state(state, "probe", std::to_string(unix_ms(at.wall)));
}

bool Store::is_damaged() {
  impl_->thread = {};
  return impl_->files && impl_->find_damage();
}

void Store::write_anew(std::span<const Lease* const> leases, const Footprints& footprints,
                       const Moment& at) noexcept try {
  Database fresh(":memory:", false);
  settle_schema(fresh);
  write_rows(fresh, leases, footprints, impl_->options.boot_id, at);
  impl_->has_anew = impl_->folder->write_anew(fresh);
} catch (const std::exception& e) {
  log::error("leases: they cannot be written to a new file and are lost: {}", e.what());
}

std::string Store::damage() const { return impl_->folder ? impl_->folder->damage() : ""; }

void Store::forget_old(const Moment& at) {
  if (!has_its_files()) return;
  const Lock guard(impl_->writing);
  const auto before = unix_ms(at.wall - impl_->options.keep_for);
  impl_->forget->bind(before).bind(std::int64_t{kForgetAtOnce}).step();
  if (sqlite3_changes(impl_->db->get()) > 0) impl_->ended->count();
  // An earlier version may have written more than the broker keeps now.
  const auto surplus = impl_->db->number("SELECT count(*) FROM footprints") -
                       static_cast<std::int64_t>(kMaxFootprints);
  if (surplus > 0)
    Statement(*impl_->db, kForgetFootprints)
        .bind(std::min<std::int64_t>(surplus, kForgetAtOnce))
        .step();
}

std::optional<Lease> Store::find(LeaseId id, const Moment& at) const {
  { const Lock turn(impl_->entrance); }
  const Lock guard(impl_->finder ? impl_->finding : impl_->writing);
  Statement s(impl_->finder ? *impl_->finder : *impl_->db, "SELECT * FROM leases WHERE id=?");
  s.bind(static_cast<std::int64_t>(id));
  return s.step() ? std::optional(lease_from(s, at)) : std::nullopt;
}

Store::Past Store::between(std::int64_t from_ms, std::int64_t to_ms, std::size_t limit,
                           const Moment& at, LeaseId before) const {
  { const Lock turn(impl_->entrance); }
  const Lock guard(impl_->reader ? impl_->reading : impl_->writing);
  Statement s(impl_->reader ? *impl_->reader : *impl_->db,
              "SELECT * FROM leases WHERE asked_ms <= ? AND (ended_ms = 0 OR ended_ms >= ?) "
              "AND id < ? ORDER BY id DESC LIMIT ?");
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  s.bind(to_ms).bind(from_ms);
  s.bind(before == 0 ? kAll : static_cast<std::int64_t>(before));
  s.bind(static_cast<std::int64_t>(limit));
  return read_past(s, at, impl_->damaged_reported);
}

}  // namespace sluice::broker
