#include "base/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sluice {

namespace {

[[noreturn]] void refuse_file(const std::string& path, std::string_view why) {
  throw Error(Code::unavailable, path + " " + std::string(why));
}

bool is_ours(const struct stat& facts) { return facts.st_uid == ::geteuid() || facts.st_uid == 0; }

std::string foreign(const struct stat& facts) {
  return "belongs to user " + std::to_string(facts.st_uid) +
         ", not to the one Sluice runs as; remove it, or choose another folder";
}

constexpr const char* kIsLink =
    "is a symbolic link, and state files are not opened through one; remove it";

// Empty where the file may be used.
std::string objection(const struct stat& facts) {
  if (S_ISLNK(facts.st_mode)) return kIsLink;
  if (!S_ISREG(facts.st_mode)) return "is no regular file; remove it";
  if (facts.st_nlink > 1)
    return "has another name (a hard link), and may be no file of ours; remove it";
  return is_ours(facts) ? "" : foreign(facts);
}

}  // namespace

// O_NONBLOCK: opening a pipe must not wait for its other end. O_TRUNC comes after the check.
StateFile::StateFile(const std::string& path, int flags, mode_t mode) {
  const int kept = flags & ~O_TRUNC;
  fd_ = ::open(path.c_str(), kept | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  if (fd_ < 0 && errno == ENOENT && (flags & O_CREAT) == 0) return;
  if (fd_ < 0 && errno == ELOOP) refuse_file(path, kIsLink);
  if (fd_ < 0) refuse_file(path, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat facts {};
  std::string why = ::fstat(fd_, &facts) == 0 ? objection(facts) : "cannot be looked at";
  if (why.empty() && (flags & O_TRUNC) != 0 && ::ftruncate(fd_, 0) != 0)
    why = std::string("cannot be emptied: ") + std::strerror(errno);
  const bool is_too_open = facts.st_uid == ::geteuid() && (facts.st_mode & 0777 & ~mode) != 0;
  if (why.empty() && is_too_open && (flags & O_ACCMODE) != O_RDONLY)
    (void)::fchmod(fd_, facts.st_mode & mode);  // as before where it cannot be
  if (why.empty()) return;
  ::close(std::exchange(fd_, -1));
  refuse_file(path, why);
}

StateFile::~StateFile() {
  if (fd_ >= 0) ::close(fd_);
}

StateFile::StateFile(StateFile&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}

StateFile& StateFile::operator=(StateFile&& from) noexcept {
  std::swap(fd_, from.fd_);
  return *this;
}

void check_state_file(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return;
  if (const auto why = objection(facts); !why.empty()) refuse_file(path, why);
}

std::optional<std::string> read_state_file(const std::string& path, std::size_t max_bytes) {
  const StateFile file(path, O_RDONLY);
  if (!file.is_open()) return std::nullopt;
  std::string text;
  char part[4096];
  while (true) {
    const auto n = ::read(file.fd(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse_file(path, std::string("cannot be read: ") + std::strerror(errno));
    if (n == 0) return text;
    text.append(part, static_cast<std::size_t>(n));
    if (text.size() > max_bytes) refuse_file(path, "is too long to be ours");
  }
}

std::string folder_warning(const std::string& path, uid_t user) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return "";
  if (facts.st_uid != user && facts.st_uid != 0)
    return path + " belongs to user " + std::to_string(facts.st_uid) +
           ", who could put other files in the place of ours; do: chown " + std::to_string(user) +
           " " + path;
  if ((facts.st_mode & 0022) == 0) return "";
  return path + " can be written by " + ((facts.st_mode & 0002) != 0 ? "every user" : "its group") +
         ", who could put other files in the place of ours; do: chmod go-w " + path;
}

void remove_stale_socket(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return;
  if (!S_ISSOCK(facts.st_mode)) refuse_file(path, "is no socket; remove it");
  if (!is_ours(facts)) refuse_file(path, foreign(facts));
  ::unlink(path.c_str());
}

}  // namespace sluice
