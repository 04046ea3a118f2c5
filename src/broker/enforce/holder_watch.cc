#include "broker/enforce/holder_watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "broker/enforce/holder.h"

namespace sluice::broker {

namespace {

constexpr int kLookEvery_ms = 1000;
constexpr std::size_t kMaxOpenPidfds = 256;  // file descriptors are the server's too

int pidfd_open(std::int64_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

HolderWatch::HolderWatch(std::string proc, Died died)
    : proc_(std::move(proc)),
      died_(std::move(died)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = stop_;
  if (epoll_ < 0 || stop_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event) != 0)
    throw Error(Code::internal, "cannot watch processes: no more file descriptors");
  thread_ = std::thread([this] { loop(); });
}

HolderWatch::~HolderWatch() {
  const std::uint64_t one = 1;
  while (::write(stop_, &one, sizeof one) < 0 && errno == EINTR) continue;
  thread_.join();
  for (const auto& [who, watched] : watched_)
    if (watched.fd >= 0) ::close(watched.fd);
  ::close(stop_);
  ::close(epoll_);
}

void HolderWatch::watch(std::int64_t pid, std::uint64_t start_time) {
  if (pid <= 0) return;
  const Lock lock(mutex_);
  const auto [found, is_new] = watched_.try_emplace({pid, start_time});
  ++found->second.leases;
  if (is_new) open_pidfd(found->first, found->second);
}

void HolderWatch::forget(std::int64_t pid, std::uint64_t start_time) {
  const Lock lock(mutex_);
  const auto found = watched_.find({pid, start_time});
  if (found != watched_.end() && --found->second.leases == 0) drop(found);
}

// The descriptor is bound to a process when it is opened. The start time is read after that,
// so that a pid that was reused in between is not taken for the holder.
void HolderWatch::open_pidfd(const Who& who, Watched& watched) {
  if (by_fd_.size() >= kMaxOpenPidfds) return;
  const int fd = pidfd_open(who.first);
  if (fd < 0) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (!is_alive(who.first, who.second, proc_) ||
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    ::close(fd);
    return;
  }
  watched.fd = fd;
  by_fd_[fd] = who;
}

void HolderWatch::drop(std::map<Who, Watched>::iterator watched) {
  if (watched->second.fd >= 0) {
    ::close(watched->second.fd);
    by_fd_.erase(watched->second.fd);
  }
  watched_.erase(watched);
}

bool HolderWatch::wait(std::vector<Who>& ended) {
  std::array<epoll_event, 16> events;
  const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kLookEvery_ms);
  const Lock lock(mutex_);
  for (int i = 0; i < n; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == stop_) return false;
    const auto who = by_fd_.find(fd);  // it may have been forgotten, and its number given anew
    if (who == by_fd_.end() || !is_readable(fd)) continue;
    ended.push_back(who->second);
    drop(watched_.find(who->second));
  }
  return true;
}

// Without the lock: there may be thousands, and each is a file to read.
void HolderWatch::look(std::vector<Who>& ended) {
  std::vector<Who> polled;
  {
    const Lock lock(mutex_);
    for (const auto& [who, watched] : watched_)
      if (watched.fd < 0) polled.push_back(who);
  }
  std::erase_if(polled, [this](const Who& w) { return is_alive(w.first, w.second, proc_); });
  const Lock lock(mutex_);
  for (const auto& who : polled)
    if (const auto found = watched_.find(who); found != watched_.end()) {
      ended.push_back(who);
      drop(found);
    }
}

void HolderWatch::loop() {
  auto look_at = Steady::now();
  std::vector<Who> ended;
  while (wait(ended)) {
    if (const auto now = Steady::now(); now >= look_at) {
      look_at = now + std::chrono::milliseconds(kLookEvery_ms);
      look(ended);
    }
    for (const auto& [pid, start_time] : std::exchange(ended, {})) died_(pid, start_time);
  }
}

}  // namespace sluice::broker
