#include "broker/store/store_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

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

// A look whether it is locked (store_health) locks it for a moment.
bool take_lock(int fd) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

StoreLock::StoreLock(const std::string& path) : file_(path, O_RDWR | O_CREAT) {
  const bool is_ours = take_lock(file_.fd());
  const auto owner = content(file_.fd());
  was_used_ = !owner.empty();
  if (is_ours) return;
  throw Error(Code::unavailable,
              "the leases here belong to " + (owner.empty() ? "another process" : owner) +
                  ", which holds " + path +
                  "; stop it, or give this one another state_dir: one machine has one broker");
}

void StoreLock::sign() {
  const auto line = fmt::format("process {} since {}\n", ::getpid(),
                                watch::iso_time(std::chrono::system_clock::now()));
  if (::ftruncate(file_.fd(), 0) != 0 ||
      ::pwrite(file_.fd(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()))
    log::warn("leases: the lock file cannot name its owner: {}", std::strerror(errno));
}

}  // namespace sluice::broker
