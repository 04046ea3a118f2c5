#include "broker/store/open_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace sluice::broker {

OpenFiles::OpenFiles(const std::string& dir) {
  for (const char* name : {"leases.db", "leases.db-wal", "leases.lock"}) {
    File file{dir + "/" + name, name};
    file.fd = ::open(file.path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat facts {};
    if (file.fd >= 0 && ::fstat(file.fd, &facts) == 0)
      file.dev = facts.st_dev, file.ino = facts.st_ino;
    files_.push_back(std::move(file));
  }
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
  std::string moved, removed;
  bool db_is_here = true, data_is_removed = false;
  for (const auto& file : files_) {
    const auto place = place_of(file);
    if (place == Place::here) continue;
    const bool is_data = &file - files_.data() < 2;
    if (&file == files_.data()) db_is_here = false;
    data_is_removed = data_is_removed || (is_data && place == Place::removed);
    auto& names = place == Place::removed ? removed : moved;
    names += (names.empty() ? "" : " and ") + file.name;
  }
  needs_copy_ = !db_is_here && data_is_removed;
  has_database_ = db_is_here;
  is_removed_ = !removed.empty();
  const Lock guard(mutex_);
  trouble_.clear();
  if (!removed.empty() || !moved.empty())
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
