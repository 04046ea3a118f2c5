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

constexpr std::size_t kLongestDetail = 1024;
// Nobody can push the lines of others out of the file by being refused: 2 MB a day.
constexpr double kRefusalsAtOnce = 20, kRefusalsPerSecond = 0.1;

std::string timestamp(WallTime at) {
  const auto ms = unix_ms(at);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(ms / 1000)), ms % 1000);
}

// ASCII alone: whoever reads it in a terminal is spoken to by nobody.
std::string line_of(const AuditLog::Entry& entry, WallTime at, std::uint64_t left_out) {
  Json json = {{"at", timestamp(at)}, {"who", entry.who}, {"what", entry.what}};
  if (!entry.address.empty()) json["address"] = entry.address;
  if (entry.pid != 0) json["pid"] = entry.pid;
  if (!entry.detail.empty()) json["detail"] = entry.detail.substr(0, kLongestDetail);
  json["result"] = entry.result.substr(0, kLongestDetail);
  if (left_out > 0) json["refusals_left_out"] = left_out;
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

AuditLog::AuditLog(std::string folder, std::uint64_t max_bytes)
    : path_(folder.empty() ? "" : folder + "/audit.log"),
      max_bytes_(max_bytes),
      allowance_(kRefusalsAtOnce) {}

void AuditLog::set_max_bytes(std::uint64_t max_bytes) {
  const Lock lock(mutex_);
  max_bytes_ = max_bytes;
}

bool AuditLog::may_tell_refusal(WallTime at) {
  const double passed = std::max(0.0, Seconds(at - allowed_at_).count());
  allowance_ = std::min(kRefusalsAtOnce, allowance_ + passed * kRefusalsPerSecond);
  allowed_at_ = at;
  if (allowance_ < 1) {
    ++left_out_;
    return false;
  }
  allowance_ -= 1;
  return true;
}

void AuditLog::add(const Entry& entry, WallTime at) {
  const Lock lock(mutex_);
  if (entry.refused && !may_tell_refusal(at)) return;
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

// The file may have been moved away by others.
void AuditLog::write(const std::string& line) {
  struct stat now {};
  open();
  if (::fstat(file_->fd(), &now) != 0 || now.st_nlink == 0) file_.reset(), open();
  if (::fstat(file_->fd(), &now) == 0 &&
      static_cast<std::uint64_t>(now.st_size) + line.size() > max_bytes_ / 2) {
    file_.reset();
    if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0)
      throw Error(Code::unavailable,
                  std::string("it cannot be set aside: ") + std::strerror(errno));
    open();
  }
  if (::write(file_->fd(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw Error(Code::unavailable, std::strerror(errno));
}

}  // namespace sluice::serve
