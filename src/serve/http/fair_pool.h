// Threads for handlers that may wait for a disk. Those who ask take turns: one with hundreds of
// questions delays its own, and another's only by one at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace sluice::serve::http {

// Thread-safe.
class FairPool {
 public:
  struct Options {
    std::size_t threads = 2;
    std::size_t most_waiting = 1024;  // of all together
    std::size_t most_of_one = 256;
    int niceness = 0;  // of its threads: above 0 they leave the cores to others
  };
  explicit FairPool(const Options& options);
  ~FairPool() { join(); }
  FairPool(const FairPool&) = delete;
  FairPool& operator=(const FairPool&) = delete;

  using Work = std::packaged_task<void()>;  // what it throws is dropped
  using Peer = const void*;                 // who asks: equal pointers are one

  // Whether more may wait, of this peer's and of all.
  bool has_room(Peer peer);
  // Takes it in any case: work that follows from other work is owed.
  void post(Peer peer, Work work);

  // Does what waits, then ends the threads; takes no more. Idempotent.
  void join();

 private:
  void add(Peer peer, Work work) REQUIRES(mutex_);
  bool next(Work& work);
  void run();

  const Options options_;
  Mutex mutex_;
  std::condition_variable_any has_work_;
  std::map<Peer, std::deque<Work>> waiting_ GUARDED_BY(mutex_);  // none of them empty
  std::deque<Peer> turns_ GUARDED_BY(mutex_);                    // each of waiting_, once
  std::size_t count_ GUARDED_BY(mutex_) = 0;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace sluice::serve::http
