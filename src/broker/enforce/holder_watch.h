// Tells when a process that holds a lease ends: at once by pidfd, within a second
// where the kernel does not give one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace sluice::broker {

// Thread-safe. `died` is called on a thread of this object, without a lock held, once
// for each watched process that ended; it may call watch() and forget().
class HolderWatch {
 public:
  using Died = std::function<void(std::int64_t pid, std::uint64_t start_time)>;
  HolderWatch(std::string proc, Died died);
  ~HolderWatch();  // no call is under way afterwards
  HolderWatch(const HolderWatch&) = delete;
  HolderWatch& operator=(const HolderWatch&) = delete;

  // Counted: a process with three leases is watched three times, and forgotten when
  // the third is over. A process that is already gone is reported as one that ended.
  void watch(std::int64_t pid, std::uint64_t start_time);
  void forget(std::int64_t pid, std::uint64_t start_time);

 private:
  using Who = std::pair<std::int64_t, std::uint64_t>;
  struct Watched {
    int leases = 0;
    int fd = -1;  // -1: looked at every second
  };
  void loop();
  bool wait(std::vector<Who>& ended);  // false when it is time to end
  void look(std::vector<Who>& ended);  // at those without a descriptor
  void open_pidfd(const Who& who, Watched& watched) REQUIRES(mutex_);
  void drop(std::map<Who, Watched>::iterator watched) REQUIRES(mutex_);

  const std::string proc_;
  const Died died_;
  int epoll_ = -1, stop_ = -1;
  Mutex mutex_;
  std::map<Who, Watched> watched_ GUARDED_BY(mutex_);
  std::map<int, Who> by_fd_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice::broker
