#include "broker/store/open_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kData = 2;  // the database and its log; the third is the lock

template <class Header>
std::optional<Header> header_of(int database) {
  Header head;
  if (::pread(database, head.data(), head.size(), 0) != static_cast<ssize_t>(head.size()))
    return std::nullopt;
  return head;
}

}  // namespace

OpenFiles::OpenFiles(const std::string& dir) {
  for (const char* name : {"leases.db", "leases.db-wal", "leases.lock"}) {
    File file{dir + "/" + name, name};
    const int flags = files_.size() < kData ? O_RDONLY | O_NONBLOCK : O_PATH;
    file.fd = ::open(file.path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts {};
    if (file.fd >= 0 && ::fstat(file.fd, &facts) == 0)
      file.dev = facts.st_dev, file.ino = facts.st_ino, file.size = facts.st_size;
    files_.push_back(std::move(file));
  }
  header_ = header_of<Header>(files_.front().fd);
}

OpenFiles::~OpenFiles() {
  for (const auto& file : files_)
    if (file.fd >= 0) ::close(file.fd);
}

// A folder that cannot be searched now tells nothing: the file may be in its place.
OpenFiles::Place OpenFiles::place_of(const File& file) noexcept {
  struct stat now {};
  if (file.fd < 0) return Place::here;
  if (::lstat(file.path.c_str(), &now) == 0) {
    if (now.st_dev == file.dev && now.st_ino == file.ino) return Place::here;
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return Place::here;
  }
  struct stat ours {};
  return ::fstat(file.fd, &ours) == 0 && ours.st_nlink > 0 ? Place::elsewhere : Place::removed;
}

// Sizes and the header: reading all of it each second would cost more than it finds.
std::string OpenFiles::damage_now() {
  for (std::size_t i = 0; i < kData; ++i) {
    auto& file = files_[i];
    struct stat facts {};
    if (file.fd < 0 || ::fstat(file.fd, &facts) != 0) continue;
    if (facts.st_size < file.size)
      return fmt::format("{} was cut off from {} to {} bytes", file.name, file.size, facts.st_size);
    file.size = facts.st_size;
  }
  if (!header_ || header_of<Header>(files_.front().fd) == header_) return "";
  return files_.front().name + " was overwritten";
}

void OpenFiles::database_was_written() noexcept { header_ = header_of<Header>(files_.front().fd); }

std::optional<WalPosition> OpenFiles::log_was_written(std::uint64_t frames) noexcept try {
  const auto end = wal_position(log(), frames);
  if (!end) set_log_damaged();
  const Lock guard(mutex_);
  if (end) log_end_ = end;
  return end;
} catch (const Error&) {  // it cannot be read: as of the commit before
  return std::nullopt;
}

bool OpenFiles::has_log_header() const {
  const Lock guard(mutex_);
  return !log_end_ || wal_position(log(), log_end_->frames) == log_end_;
}

bool OpenFiles::is_log_whole(WalCheck& check) const {
  std::optional<WalPosition> end;
  {
    const Lock guard(mutex_);
    end = log_end_;
  }
  return !end || check.reaches(*end);
}

void OpenFiles::set_damaged(const std::string& what) noexcept try {
  const Lock guard(mutex_);
  if (!damage_.empty()) return;
  damage_ = what +
            " while it is in use: stop the server with SIGTERM, which keeps the damaged file and "
            "writes the leases to a new one, and start it again; a crash would lose leases";
  trouble_ = damage_;
  is_damaged_ = is_lost_ = true;
} catch (const std::exception&) {  // out of memory: found again by the next look
}

std::string OpenFiles::sentence(const std::string& names, bool removed, bool copy) const {
  if (!removed)
    return fmt::format(
        "{} was moved or replaced while it is in use: move it back, or stop the server and start "
        "it where the file is now",
        names);
  return fmt::format(
      "{} was removed while it is in use: stop the server with SIGTERM, which {}, and start it "
      "again; a crash would lose leases",
      names, copy ? "writes all leases to a new file" : "saves what is in it");
}

void OpenFiles::look() noexcept try {
  if (const auto damage = is_damaged_ ? std::string() : damage_now(); !damage.empty())
    set_damaged(damage);
  std::string moved, removed;
  bool db_is_here = true, data_is_removed = false;
  for (const auto& file : files_) {
    const auto place = place_of(file);
    if (place == Place::here) continue;
    const bool is_data = &file - files_.data() < static_cast<std::ptrdiff_t>(kData);
    if (&file == files_.data()) db_is_here = false;
    data_is_removed = data_is_removed || (is_data && place == Place::removed);
    auto& names = place == Place::removed ? removed : moved;
    names += (names.empty() ? "" : " and ") + file.name;
  }
  needs_copy_ = !db_is_here && data_is_removed;
  has_database_ = db_is_here;
  is_removed_ = !removed.empty();
  const Lock guard(mutex_);
  trouble_ = damage_;
  if (damage_.empty() && (!removed.empty() || !moved.empty()))
    trouble_ = sentence(removed.empty() ? moved : removed, !removed.empty(), needs_copy_);
  is_lost_ = !trouble_.empty();
} catch (const std::exception&) {  // out of memory: as of the look before
}

std::string OpenFiles::trouble() const {
  const Lock guard(mutex_);
  return trouble_;
}

void OpenFiles::require_in_place() const {
  if (is_lost_) throw Error(Code::unavailable, trouble());
}

}  // namespace sluice::broker
