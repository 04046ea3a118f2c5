#include "broker/store/store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/sqlite/sqlite.h"
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
constexpr auto kNoteEvery = std::chrono::milliseconds(100), kFilesEvery = kNoteEvery * 10;

// The file holds the holders' secrets: for our eyes only, and so SQLite's beside it.
void make_private(const std::string& path) {
  const StateFile file(path, O_RDWR | O_CREAT);
  ::fchmod(file.fd(), 0600);
}

// The file is ours alone, so nobody has it locked for long; and the broker waits meanwhile.
constexpr int kPatience_ms = 50;

void prepare(Database& db, Durability durability) {
  sqlite3_busy_timeout(db.get(), kPatience_ms);
  db.run("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
  db.run(durability == Durability::power ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
}

// Closing the last connection merges the log into the file. Not where the file is refused.
void merge_on_close(Database& db, bool yes) {
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, yes ? 0 : 1, nullptr);
}

// SQLite's files beside `path` that are not there yet.
std::vector<std::string> missing_beside(const std::string& path) {
  std::vector<std::string> names{path + "-wal", path + "-shm"};
  std::error_code ignored;
  std::erase_if(names, [&](const std::string& name) { return fs::exists(name, ignored); });
  return names;
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
  ~Impl();

  void open();
  void open_file(const std::string& path);
  void close_all();
  Past read_past(Statement& rows, const Moment& at);
  void report_and_drop(const StoredRows& rows);
  void work(std::stop_token stop);
  void checkpoint();
  void look_at_files() noexcept;
  void require_files() const;
  void note_position();
  void require_reserved(LeaseId id);
  void reserve_above(LeaseId id);
  bool copy_pages();  // true when next to nothing of the log is left to copy
  static int after_commit(void* self, sqlite3*, const char*, int pages);

  const Options options;
  std::optional<StoreFolder> folder;  // this and the next are absent in memory
  std::optional<OpenFiles> files;
  std::unique_ptr<Database> db, checkpointer;
  std::unique_ptr<Database> reader, finder;  // absent in memory

  // Statements are made once; the writer's are under the broker's lock and this one,
  // which the last step of a checkpoint takes too.
  Mutex writing;
  std::optional<Statement> save, forget, forget_of_peer;
  void count_ended() REQUIRES(writing);
  std::size_t forget_some(std::size_t rows, const Moment& at) REQUIRES(writing);
  std::size_t ended GUARDED_BY(writing) = 0;                                  // rows, about
  std::unordered_map<std::string, std::size_t> ended_of GUARDED_BY(writing);  // the same by peer
  std::string most_ended GUARDED_BY(writing);  // the peer that had most when that was looked at
  unsigned looks_again_in GUARDED_BY(writing) = 0;

  mutable Mutex reading, finding;  // a long look back holds up no short one
  // Readers pass through it, so that those who read without pause let a checkpoint in: a mutex
  // alone is often taken again by the thread that gave it back.
  mutable Mutex entrance;
  std::atomic<std::size_t> damaged_reported{0};  // logged once

  std::atomic<LeaseId> reserved{0};  // no number above is in use
  Mutex reserving;                   // taken after `writing`
  std::atomic<int> frames{0};        // in the log; changed under `writing`

  struct Tasks {  // for the thread; set under `waking`
    std::atomic<bool> checkpoint{false}, reserve{false}, note{false};
    bool any() const { return checkpoint || reserve || note; }
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
  forget_of_peer.emplace(*db, kForgetLeasesOfPeer);
  const Lock guard(writing);
  count_ended();
  if (!folder) return;
  thread = std::jthread([this](std::stop_token stop) { work(stop); });
}

// The last connection that closes merges the log and removes it; then there is none to miss.
Store::Impl::~Impl() {
  thread = {};
  if (!folder) return;
  look_at_files();
  const bool is_anew = files->needs_copy() && folder->write_anew(*db);
  const bool is_elsewhere = !files->has_database();
  close_all();
  if (is_anew) folder->put_anew(reserved);
  std::error_code failed;
  if (is_elsewhere || fs::exists(folder->database() + "-wal", failed) || failed) return;
  folder->mark().note(std::nullopt);
  folder->mark().sync();
}

void Store::Impl::close_all() {
  save.reset(), forget.reset(), forget_of_peer.reset();
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
  const auto made = missing_beside(path);
  try {
    open_file(path);
  } catch (const Error& e) {
    close_all();
    std::error_code ignored;
    for (const auto& name : made) fs::remove(name, ignored);
    if (e.code() == Code::internal) refuse_store(path, e.reason());
    throw Error(Code::unavailable, fmt::format("{}: {}", path, e.reason()));
  }
  folder->sign();
  files.emplace(options.dir);
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
  if (store.frames.exchange(pages) != pages) store.wake(&Tasks::note);
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
      const bool is_due = woken.wait_for(waking, stop, kFilesEvery, [this]() { return due.any(); });
      if (!is_due && stop.stop_requested()) return;
    }
    std::chrono::milliseconds pause = kNoteEvery;
    try {
      look_at_files();
      if (due.reserve.exchange(false)) reserve_above(reserved);
      if (due.checkpoint) checkpoint();
      due.checkpoint = false;  // after: what came meanwhile was for a log that is empty now
      if (due.note.exchange(false)) note_position();  // before: what comes meanwhile is done again
    } catch (const Error& e) {
      log::warn("leases: the log cannot be merged into the file, or no numbers reserved: {}",
                e.what());
      pause = std::chrono::seconds(1);
      due.checkpoint = false;
    }
    const Lock guard(waking);
    woken.wait_for(waking, stop, pause, [this]() { return due.checkpoint || due.reserve; });
  }
}

void Store::Impl::look_at_files() noexcept try {
  const auto before = files->trouble();
  files->look();
  const auto trouble = files->trouble();
  folder->write_report();
  if (trouble == before) return;
  if (trouble.empty())
    log::info("leases: the files are in their places again");
  else if (files->is_removed())
    folder->report(trouble);
  else
    log::error("leases: {}", trouble);
} catch (const std::exception& e) {
  log::warn("leases: the files could not be looked at: {}", e.what());
}

// Behind by up to a tenth of a second: SQLite's index beside the log is exact, and this is for
// when that is lost, too.
void Store::Impl::note_position() {
  const Lock guard(writing);
  if (!files->are_in_place()) return;
  const int in_log = frames;
  const auto at = wal_position(folder->database(), static_cast<unsigned>(in_log));
  if (at) folder->mark().note(at);
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
// alone.
void Store::Impl::checkpoint() {
  for (int pass = 0; pass < 4 && !copy_pages(); ++pass) continue;
  const Lock no_reader(entrance), no_timeline(reading), no_look_up(finding), no_write(writing);
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
    count_ended();
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
  const bool full = impl_->ended + over > impl_->options.keep_ended;
  if (leases.size() > 1 || full) all.emplace(*impl_->db);
  for (const auto* lease : leases) {
    bind_lease(*impl_->save, *lease, at);
    impl_->save->step();
  }
  // Two for one, so that it shrinks where it has grown past the limit.
  const auto gone = full ? impl_->forget_some(2 * over, at) : std::size_t{0};
  if (all) all->commit();
  if (over == 0 && gone == 0) return;
  for (const auto* lease : leases)
    if (lease->state == State::ended) ++impl_->ended_of[lease->request.peer];
  auto& most = impl_->ended_of[impl_->most_ended];
  impl_->ended += over;
  impl_->ended -= std::min(gone, impl_->ended);
  most -= std::min(gone, most);
}

void Store::Impl::count_ended() {
  ended = 0;
  ended_of.clear();
  Statement rows(*db, "SELECT peer, count(*) FROM leases WHERE state = 'ended' GROUP BY peer");
  while (rows.step()) {
    ended_of[rows.text(0)] = static_cast<std::size_t>(rows.number(1));
    ended += static_cast<std::size_t>(rows.number(1));
  }
}

// The oldest of the peer that has most: one that has many costs others none of theirs.
std::size_t Store::Impl::forget_some(std::size_t rows, const Moment& at) {
  constexpr unsigned kLookEvery = 64;
  if (looks_again_in-- == 0) {
    looks_again_in = kLookEvery;
    const auto most =
        std::ranges::max_element(ended_of, {}, [](const auto& of) { return of.second; });
    if (most != ended_of.end()) most_ended = most->first;
  }
  forget_of_peer->bind(most_ended)
      .bind(unix_ms(at.wall))
      .bind(static_cast<std::int64_t>(rows))
      .step();
  return static_cast<std::size_t>(sqlite3_changes(db->get()));
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

std::string Store::damage() const { return impl_->folder ? impl_->folder->damage() : ""; }

void Store::forget_old(const Moment& at) {
  const Lock guard(impl_->writing);
  const auto before = unix_ms(at.wall - impl_->options.keep_for);
  impl_->forget->bind(before).bind(std::int64_t{kForgetAtOnce}).step();
  if (sqlite3_changes(impl_->db->get()) > 0) impl_->count_ended();
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

// A row that makes no sense costs itself only; one that cannot be read, those older than it.
Store::Past Store::Impl::read_past(Statement& rows, const Moment& at) {
  Past past;
  const auto skip = [&](const std::string& which, const Error& e) {
    if (e.code() != Code::internal) throw e;
    if (++past.damaged > damaged_reported)
      log::warn("leases: {} is damaged: {}", which, e.reason());
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
  if (past.damaged > damaged_reported) damaged_reported = past.damaged;
  std::ranges::reverse(past.leases);
  return past;
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
  return impl_->read_past(s, at);
}

}  // namespace sluice::broker
