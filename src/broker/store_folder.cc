#include "broker/store_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/new_file.h"
#include "broker/store_rows.h"
#include "watch/alert.h"
#include "watch/sqlite_file.h"

namespace sluice::broker {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostDamage = 16 << 10;  // bytes of leases.damage; older lines are dropped

std::string with_folder(std::string dir) {
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) throw Error(Code::unavailable, dir + ": " + failed.message());
  return dir;
}

// Why the database cannot be used; empty where it can.
std::string refusal_of(const watch::SqliteFacts& facts, bool was_used) {
  if (facts.exists && facts.bytes == 0 && was_used)
    return "it is empty, though leases were kept in it";
  try {
    require_ours(facts, kApplication, kVersion);
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "";
}

std::vector<std::string> damage_of(const watch::SqliteFacts& facts, const Marked& marked,
                                   bool was_used) {
  std::vector<std::string> found;
  if (was_used && !facts.exists)
    found.emplace_back("leases.db is gone, and with it all leases");
  else if (auto log = watch::wal_damage(facts, marked.position); !log.empty())
    found.push_back("leases.db: " + log);
  if (marked.is_damaged) found.emplace_back("leases.mark is damaged; it was written anew");
  return found;
}

std::string damage_file(const std::string& dir) { return dir + "/leases.damage"; }

std::string read_damage(const std::string& dir) {
  return read_state_file(damage_file(dir), 2 * kMostDamage).value_or("");
}

}  // namespace

void refuse_store(const std::string& path, std::string_view why) {
  throw Error(Code::unavailable,
              fmt::format("{} cannot be used: {}. Nothing was changed. Put a good copy in its "
                          "place, or move it away with the -wal and -shm files beside it to begin "
                          "without leases; holders then hear that theirs are unknown",
                          path, why));
}

StoreFolder::StoreFolder(std::string dir)
    : dir_(with_folder(std::move(dir))),
      lock_(dir_ + "/leases.lock"),
      marked_(read_mark(dir_ + "/leases.mark")),
      mark_(dir_ + "/leases.mark") {
  const auto facts = watch::inspect_sqlite(database());
  if (const auto why = refusal_of(facts, lock_.was_used()); !why.empty())
    refuse_store(database(), why);
  found_ = damage_of(facts, marked_, lock_.was_used());
  has_damage_ = !found_.empty() || fs::exists(damage_file(dir_));
}

void StoreFolder::sign() {
  lock_.sign();
  for (const auto& what : found_) report(what);
  found_.clear();
}

void StoreFolder::report(const std::string& what) noexcept try {
  log::error("leases: damage was found: {}", what);
  has_damage_ = true;
  auto text =
      read_damage(dir_) + watch::iso_time(std::chrono::system_clock::now()) + " " + what + "\n";
  if (text.size() > kMostDamage) {
    text.erase(0, text.size() - kMostDamage);
    text.erase(0, text.find('\n') + 1);
  }
  NewFile file(damage_file(dir_));
  file.write(text);
  file.keep();
} catch (const std::exception& e) {
  log::warn("leases: the damage is in the log only: {}", e.what());
}

std::string StoreFolder::damage() const noexcept {
  if (!has_damage_) return "";
  try {
    return read_damage(dir_);
  } catch (const std::exception& e) {
    return e.what();
  }
}

StoreHealth store_health(const std::string& dir) {
  StoreHealth health;
  const StateFile lock(dir + "/leases.lock", O_RDONLY);
  if (!lock.is_open()) return health;  // never used
  health.exists = true;
  health.is_in_use = ::flock(lock.fd(), LOCK_SH | LOCK_NB) != 0;
  std::error_code failed;
  const auto bytes = fs::file_size(dir + "/leases.db", failed);
  health.bytes = failed ? 0 : bytes;
  health.damage = read_damage(dir);
  if (health.is_in_use) return health;
  const bool was_used = ::lseek(lock.fd(), 0, SEEK_END) > 0;
  const auto facts = watch::inspect_sqlite(dir + "/leases.db");
  health.refusal = refusal_of(facts, was_used);
  const auto found = damage_of(facts, read_mark(dir + "/leases.mark"), was_used);
  health.damage += fmt::format("{}", fmt::join(found, "\n"));
  return health;
}

}  // namespace sluice::broker
