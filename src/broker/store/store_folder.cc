#include "broker/store/store_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/sqlite/sqlite_file.h"
#include "base/state_file.h"
#include "broker/store/store_rows.h"
#include "broker/store/stored_rows.h"
#include "watch/alert.h"

namespace sluice::broker {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCopies = "leases.db.damaged-";  // and the seconds since 1970
constexpr std::size_t kMaxDamageBytes = 16
                                        << 10;  // bytes of leases.damage; older lines are dropped

std::string with_folder(std::string dir) {
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) throw Error(Code::unavailable, dir + ": " + failed.message());
  return dir;
}

// Why the database cannot be used; empty where it can.
std::string refusal_of(const SqliteFacts& facts, bool was_used) {
  if (facts.exists && facts.bytes == 0 && was_used)
    return "it is empty, though leases were kept in it";
  try {
    require_ours(facts, kApplication, kVersion);
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "";
}

std::string mark_file(const std::string& dir) { return dir + "/leases.mark"; }

// The folder was used, also where its lock is gone: numbers are reserved once the tables are there.
bool has_reserved(const Marked& marked) { return marked.reserved.value_or(0) > 0; }

std::vector<std::string> damage_of(const SqliteFacts& facts, const Marked& marked, bool was_used) {
  std::vector<std::string> found;
  if (was_used && !facts.exists)
    found.emplace_back("leases.db is gone, and with it all leases");
  else if (auto log = wal_damage(facts, marked.position); !log.empty())
    found.push_back("leases.db: " + log);
  else if (was_used && !facts.has_tables)
    found.emplace_back("leases.db has no tables: all leases were in the log, which is gone");
  if (!marked.exists && facts.has_tables && facts.user_version >= kFirstWithMark)
    found.emplace_back(
        "leases.mark is gone: if the log was lost as well, the newest leases are lost, too");
  if (marked.is_damaged) found.emplace_back("leases.mark is damaged; it was written anew");
  return found;
}

// The database and its log; whether there was either. Nobody may have them open.
bool copy_database(const std::string& from, const std::string& to) {
  bool has_any = false;
  for (const char* suffix : {"", "-wal"}) {
    check_state_file(from + suffix);
    std::error_code failed;
    if (!fs::exists(from + suffix, failed)) continue;
    fs::copy_file(from + suffix, to + suffix, fs::copy_options::overwrite_existing, failed);
    if (failed)
      throw Error(Code::unavailable, from + suffix + " cannot be copied: " + failed.message());
    has_any = true;
  }
  return has_any;
}

std::string copy_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return kCopies + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

// SQLite writes the copy: to open and close the file here would drop SQLite's locks on it.
void copy_open(Database& db, const std::string& to) {
  const StateFile copy(to, O_RDWR | O_CREAT | O_EXCL);
  Statement(db, "VACUUM INTO ?").bind(to).step();
  ::fsync(copy.fd());
}

// Throws internal where a server would refuse it.
std::vector<std::string> damage_of_rows(const std::string& database) {
  Database db(database, false);
  require_whole(db);
  if (db.number("PRAGMA user_version") != kVersion) return {};
  return damage_in(read_rows(db, {Steady::now(), std::chrono::system_clock::now()}));
}

// Why a server would refuse the database; empty where it would not. Of a copy: SQLite writes to
// what it opens.
std::string refusal_of_copy(const std::string& database, std::vector<std::string>& damage) {
  std::error_code ignored;
  auto dir = (fs::temp_directory_path(ignored) / "sluice-leases-XXXXXX").string();
  if (::mkdtemp(dir.data()) == nullptr)
    throw Error(Code::unavailable, dir + " cannot be made to check the leases in");
  std::string why;
  try {
    if (copy_database(database, dir + "/leases.db")) damage = damage_of_rows(dir + "/leases.db");
  } catch (const Error& e) {
    why = e.reason();
  }
  fs::remove_all(dir, ignored);
  return why;
}

bool is_locked(const StateFile& file) {
  if (!file.is_open()) return false;
  const bool is_free = ::flock(file.fd(), LOCK_SH | LOCK_NB) == 0;
  if (is_free) ::flock(file.fd(), LOCK_UN);  // a server that starts meanwhile is not kept from it
  return !is_free;
}

std::string damage_file(const std::string& dir) { return dir + "/leases.damage"; }

void shorten(std::string& report) {
  if (report.size() <= kMaxDamageBytes) return;
  report.erase(0, report.size() - kMaxDamageBytes);
  report.erase(0, report.find('\n') + 1);
}

std::string read_damage(const std::string& dir) {
  return read_state_file(damage_file(dir), 2 * kMaxDamageBytes).value_or("");
}

}  // namespace

void refuse_store(const std::string& path, std::string_view why) {
  throw Error(Code::unavailable,
              fmt::format("{} cannot be used: {}. Nothing was changed. Put a good copy in its "
                          "place, or move it away with the -wal file beside it to begin without "
                          "leases; those of holders are then unknown",
                          path, why));
}

StoreFolder::StoreFolder(std::string dir)
    : dir_(with_folder(std::move(dir))),
      lock_(dir_ + "/leases.lock"),
      marked_(read_mark(mark_file(dir_))) {
  const auto facts = inspect_sqlite(database());
  const bool was_used = lock_.was_used() || has_reserved(marked_);
  if (const auto why = refusal_of(facts, was_used); !why.empty()) refuse_store(database(), why);
  found_ = damage_of(facts, marked_, was_used);
  std::error_code ignored;
  has_damage_ = !found_.empty() || fs::exists(damage_file(dir_), ignored);
  if (!found_.empty()) keep_copy();
  has_new_mark_ = !marked_.exists;
  mark_.emplace(mark_file(dir_));
}

StoreFolder::~StoreFolder() {
  std::error_code ignored;  // where it is refused, what is damaged is where it was
  if (has_new_mark_) fs::remove(mark_file(dir_), ignored);
  if (!copy_.empty())
    for (const char* suffix : {"", "-wal"}) fs::remove(dir_ + "/" + copy_ + suffix, ignored);
}

// SQLite drops what it cannot read of a log, and with it what could be examined.
void StoreFolder::keep_copy() noexcept try {
  copy_ = copy_name();
  has_copy_ = copy_database(database(), dir_ + "/" + copy_);
  if (has_copy_) found_.back() += "; a copy of what is left is " + copy_;
} catch (const std::exception& e) {
  log::warn("leases: no copy of what is damaged is kept: {}", e.what());
}

std::string StoreFolder::copy_of_open(Database& db) noexcept try {
  if (has_copy_) return "";
  const auto name = copy_name();
  copy_open(db, dir_ + "/" + name);
  copy_ = name;
  drop_older_copies();
  has_copy_ = true;
  return "; a copy of what was found is " + name;
} catch (const std::exception& e) {
  log::warn("leases: no copy of what is damaged is kept: {}", e.what());
  return "";
}

void StoreFolder::report_rows(const std::vector<std::string>& found, Database& db) noexcept {
  const auto copy = copy_of_open(db);
  for (const auto& what : found) report(what + (&what == &found.back() ? copy : ""));
}

// One copy is kept.
void StoreFolder::drop_older_copies() noexcept try {
  const auto kept = std::exchange(copy_, {});
  if (kept.empty()) return;
  for (const auto& entry : fs::directory_iterator(dir_))
    if (const auto name = entry.path().filename().string();
        name.starts_with(kCopies) && !name.starts_with(kept))
      fs::remove(entry.path());
} catch (const std::exception& e) {
  log::warn("leases: older copies of what was damaged stay: {}", e.what());
}

void StoreFolder::sign() {
  lock_.sign();
  has_new_mark_ = false;
  drop_older_copies();
  for (const auto& what : found_) report(what);
  found_.clear();
}

void StoreFolder::report(const std::string& what) noexcept try {
  const Lock guard(reporting_);
  log::error("leases: damage was found: {}", what);
  unwritten_ += watch::iso_time(std::chrono::system_clock::now()) + " " + what + "\n";
  shorten(unwritten_);
  has_damage_ = true;
  write_unwritten();
} catch (const std::exception& e) {
  log::warn("leases: the damage is in the log only: {}", e.what());
}

void StoreFolder::write_report() noexcept {
  const Lock guard(reporting_);
  write_unwritten();
}

// A folder that was removed is not made again for it.
void StoreFolder::write_unwritten() noexcept try {
  std::error_code failed;
  if (unwritten_.empty() || !fs::is_directory(dir_, failed)) return;
  auto text = read_damage(dir_) + unwritten_;
  shorten(text);
  NewFile file(damage_file(dir_), 0600);
  file.write(text);
  file.keep();
  unwritten_.clear();
} catch (const std::exception&) {  // it is in the log, and tried again
}

std::string StoreFolder::damage() const noexcept {
  if (!has_damage_) return "";
  const Lock guard(reporting_);
  try {
    return read_damage(dir_) + unwritten_;
  } catch (const std::exception& e) {
    return unwritten_.empty() ? e.what() : unwritten_;
  }
}

bool StoreFolder::write_anew(Database& db) noexcept try {
  fs::create_directories(dir_);
  ::chmod(dir_.c_str(), 0700);
  anew_ = database() + ".anew";
  fs::remove(anew_);
  copy_open(db, anew_);
  return true;
} catch (const std::exception& e) {
  log::error("leases: they cannot be written to a new file and are lost: {}", e.what());
  return false;
}

bool StoreFolder::put_aside() noexcept try {
  const auto name = copy_name();
  for (const char* suffix : {"-wal", ""})
    if (fs::exists(database() + suffix))
      fs::rename(database() + suffix, dir_ + "/" + name + suffix);
  log::warn("leases: what was damaged is kept as {}, with the leases that had ended", name);
  copy_ = name;
  drop_older_copies();
  return true;
} catch (const std::exception& e) {
  log::error("leases: what is damaged cannot be moved aside, and the leases are in {}: {}", anew_,
             e.what());
  return false;
}

// The log beside it is of the file that is gone: its pages must not be merged into this one.
void StoreFolder::put_anew(LeaseId reserved) noexcept try {
  if (fs::exists(database()))
    throw Error(Code::unavailable, "another file has its place; they are in " + anew_);
  fs::remove(database() + "-wal");
  fs::rename(anew_, database());
  StoreMark mark(mark_file(dir_));
  mark.note(std::nullopt);
  mark.reserve(reserved);
  write_report();
  log::warn("leases: leases.db was removed or damaged; the leases are in a new one");
} catch (const std::exception& e) {
  log::error("leases: leases.db was removed or damaged, and there is no new one: {}", e.what());
}

StoreHealth store_health(const std::string& dir) {
  StoreHealth health;
  const StateFile lock(dir + "/leases.lock", O_RDONLY);
  const auto marked = read_mark(mark_file(dir));
  std::error_code failed;
  if (!lock.is_open() && !marked.exists && !fs::exists(dir + "/leases.db", failed))
    return health;  // never used
  health.exists = true;
  health.is_in_use = is_locked(lock);
  const auto bytes = fs::file_size(dir + "/leases.db", failed);
  health.bytes = failed ? 0 : bytes;
  health.damage = read_damage(dir);
  health.is_reported = !health.damage.empty();
  if (health.is_in_use) return health;
  const bool was_used = ::lseek(lock.fd(), 0, SEEK_END) > 0 || has_reserved(marked);
  const auto facts = inspect_sqlite(dir + "/leases.db");
  health.refusal = refusal_of(facts, was_used);
  std::vector<std::string> in_rows;
  if (health.refusal.empty()) health.refusal = refusal_of_copy(dir + "/leases.db", in_rows);
  health.is_in_use = is_locked(lock);
  if (health.is_in_use) {  // one started meanwhile: what was read may be half of it
    health.refusal.clear();
    return health;
  }
  auto found = damage_of(facts, read_mark(mark_file(dir)), was_used);
  found.insert(found.end(), in_rows.begin(), in_rows.end());
  health.damage += fmt::format("{}", fmt::join(found, "\n"));
  return health;
}

}  // namespace sluice::broker
