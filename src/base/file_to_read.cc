#include "base/file_to_read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sluice {
namespace {

bool is_given(int fd, const struct stat& facts) {
  constexpr unsigned kMemoryDevices = 1, kNull = 3;
  if (S_ISFIFO(facts.st_mode) || ::isatty(fd) != 0) return true;
  return S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(kMemoryDevices, kNull);
}

}  // namespace

int open_to_read(const std::filesystem::path& file) noexcept {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  struct stat facts {};
  const bool known = ::fstat(fd, &facts) == 0;
  const bool below_dev = file.native().starts_with("/dev/");
  if (known && (S_ISREG(facts.st_mode) || (below_dev && is_given(fd, facts)))) {
    ::fcntl(fd, F_SETFL, O_RDONLY);  // reading may wait, as it does for a slow disk
    return fd;
  }
  ::close(fd);
  errno = known && S_ISDIR(facts.st_mode) ? EISDIR : EINVAL;
  return -1;
}

std::optional<std::string> read_named_file(const std::filesystem::path& file,
                                           std::size_t max_bytes) {
  const int fd = open_to_read(file);
  if (fd < 0) return std::nullopt;
  std::string text;
  std::array<char, 1 << 16> part;
  ssize_t got = 1;
  while (got != 0 && text.size() < max_bytes) {
    got = ::read(fd, part.data(), std::min(part.size(), max_bytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  const int why = errno;
  ::close(fd);
  errno = why;
  return got < 0 ? std::nullopt : std::optional(std::move(text));
}

}  // namespace sluice
