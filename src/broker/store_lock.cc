#include "broker/store_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "watch/alert.h"

namespace sluice::broker {

namespace {

std::string content(int fd) {
  std::array<char, 256> bytes;
  const auto n = ::pread(fd, bytes.data(), bytes.size(), 0);
  std::string text(bytes.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return text.substr(0, text.find('\n'));
}

}  // namespace

StoreLock::StoreLock(const std::string& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw Error(Code::unavailable, path + ": " + std::strerror(errno));
  const bool is_ours = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
  const auto owner = content(fd_);
  was_used_ = !owner.empty();
  if (is_ours) return;
  ::close(fd_);
  throw Error(Code::unavailable,
              "the leases here belong to " + (owner.empty() ? "another process" : owner) +
                  ", which holds " + path +
                  "; stop it, or give this one another state_dir: one machine has one broker");
}

StoreLock::~StoreLock() { ::close(fd_); }

void StoreLock::sign() {
  const auto line = fmt::format("process {} since {}\n", ::getpid(),
                                watch::iso_time(std::chrono::system_clock::now()));
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()))
    log::warn("leases: the lock file cannot name its owner: {}", std::strerror(errno));
}

}  // namespace sluice::broker
