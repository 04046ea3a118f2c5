#include "serve/audit.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

namespace sluice::serve {

namespace {

constexpr std::size_t kMaxTextBytes = 1024, kMaxRefusalBytes = 256;
// Refusals of one client cannot push the lines of others out of the file (2 MB a day) or hide their
// refusals: clients without recent refusals have a separate allowance.
constexpr double kOfOneAtOnce = 5, kKnownAtOnce = 20, kFreshAtOnce = 100, kPerSecond = 1. / 60;
constexpr std::size_t kMaxRefused = 1024;

std::string timestamp(WallTime at) {
  const auto ms = unix_ms(at);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

// Cuts `text` so that its escaped form has at most `max_bytes` bytes.
std::string cut(std::string text, std::size_t max_bytes) {
  text.resize(std::min(text.size(), max_bytes));
  while (true) {
    const auto length = Json(text).dump(-1, ' ', true, Json::error_handler_t::replace).size() - 2;
    if (length <= max_bytes) return text;
    text.resize(std::min(text.size() - 1, text.size() * max_bytes / length));
  }
}

// ASCII only: no escape sequence reaches the terminal of a reader.
std::string line_of(const AuditLog::Entry& entry, WallTime at, std::uint64_t left_out) {
  const auto max_bytes = entry.refused ? kMaxRefusalBytes : kMaxTextBytes;
  Json json = {{"at", timestamp(at)}, {"who", cut(entry.who, kMaxRefusalBytes)}};
  if (!entry.key.empty()) json["key"] = cut(entry.key, kMaxRefusalBytes);
  json["what"] = cut(entry.what, max_bytes);
  if (!entry.address.empty()) json["address"] = cut(entry.address, kMaxRefusalBytes);
  if (entry.pid != 0) json["pid"] = entry.pid;
  if (!entry.detail.empty()) json["detail"] = cut(entry.detail, max_bytes);
  json["result"] = cut(entry.result, max_bytes);
  if (left_out > 0) json["refusals_left_out"] = left_out;
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

AuditLog::AuditLog(std::string folder, std::uint64_t max_bytes)
    : path_(folder.empty() ? "" : folder + "/audit.log"),
      max_bytes_(max_bytes),
      known_{kKnownAtOnce},
      fresh_{kFreshAtOnce} {}

void AuditLog::set_max_bytes(std::uint64_t max_bytes) {
  const Lock lock(mutex_);
  max_bytes_ = max_bytes;
}

bool AuditLog::TokenBucket::take(double capacity, double per_second, WallTime now) {
  left = std::min(capacity, left + std::max(0.0, Seconds(now - at).count()) * per_second);
  at = now;
  if (left < 1) return false;
  left -= 1;
  return true;
}

bool AuditLog::may_log_refusal(const std::string& who, WallTime at) {
  const bool is_fresh = !refused_.contains(who);
  if (is_fresh && refused_.size() >= kMaxRefused)
    refused_.erase(
        std::ranges::min_element(refused_, {}, [](const auto& one) { return one.second.at; }));
  auto& own = refused_.try_emplace(who, TokenBucket{kOfOneAtOnce, at}).first->second;
  if (own.take(kOfOneAtOnce, kPerSecond, at) &&
      (is_fresh ? fresh_.take(kFreshAtOnce, kPerSecond, at)
                : known_.take(kKnownAtOnce, kPerSecond, at)))
    return true;
  ++left_out_;
  return false;
}

void AuditLog::add(const Entry& entry, WallTime at) {
  const Lock lock(mutex_);
  if (entry.refused && !may_log_refusal(entry.who, at)) return;
  const auto line = line_of(entry, at, std::exchange(left_out_, 0));
  log::info("audit: {}", std::string_view(line).substr(0, line.size() - 1));
  if (path_.empty()) return;
  try {
    write(line);
    is_failing_ = false;
  } catch (const Error& e) {
    file_.reset();
    if (!std::exchange(is_failing_, true))
      log::error("{} cannot be written, the log alone has what was done: {}", path_, e.what());
  }
}

void AuditLog::open() {
  if (file_ == nullptr)
    file_ = std::make_unique<StateFile>(path_, O_WRONLY | O_APPEND | O_CREAT, 0600);
}

// The file may have been moved away by others. A line that does not go out whole leaves nothing.
void AuditLog::write(const std::string& line) {
  struct stat now {
  }, named{};
  open();
  const bool is_there = ::fstat(file_->fd(), &now) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
                        now.st_ino == named.st_ino && now.st_dev == named.st_dev;
  if (!is_there) file_.reset(), open();
  if (::fstat(file_->fd(), &now) == 0 &&
      static_cast<std::uint64_t>(now.st_size) + line.size() > max_bytes_ / 2) {
    file_.reset();
    if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
      throw Error(Code::unavailable,
                  std::string("it cannot be set aside: ") + std::strerror(errno));
    open();
    now.st_size = 0;
  }
  const auto written = ::write(file_->fd(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  const int why = written < 0 ? errno : ENOSPC;
  if (written > 0 && ::ftruncate(file_->fd(), now.st_size) != 0)
    log::warn("{} has half a line at its end: {}", path_, std::strerror(errno));
  throw Error(Code::unavailable, std::strerror(why));
}

}  // namespace sluice::serve
