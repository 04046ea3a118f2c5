// A thread pool that serves its clients round-robin: one with hundreds of tasks delays its own,
// and another's by one task at most.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace sluice::serve {

// Thread-safe.
class FairPool {
 public:
  struct Options {
    std::size_t threads = 2;
    std::size_t max_queued = 1024;  // of all clients together
    std::size_t max_queued_per_client = 256;
    std::size_t max_running_per_client = std::numeric_limits<std::size_t>::max();
    int niceness = 0;  // of its threads: above 0 they leave the cores to others
  };
  explicit FairPool(const Options& options);
  ~FairPool() { join(); }
  FairPool(const FairPool&) = delete;
  FairPool& operator=(const FairPool&) = delete;

  using Work = std::packaged_task<void()>;  // what it throws is dropped

  // Returns whether the queue can take one more task of this client. The last quarter is reserved
  // for clients with few tasks.
  bool has_capacity(const std::string& client);
  // Accepts the task in any case: follow-up work must not be refused.
  void post(const std::string& client, Work work);

  // Drops what is queued, for a server that ends: nobody waits for the answers any more.
  void drop_queued();
  // Runs what is queued, then ends the threads; drops what is posted after. Idempotent.
  void join();

 private:
  struct Client {
    std::deque<Work> queued;
    std::size_t running = 0;
  };
  using Clients = std::map<std::string, Client>;

  void run();
  // The next task, and whose it is; waits for one. False when the pool has ended.
  bool next(Work& work, Clients::iterator& client);
  bool take(Work& work, Clients::iterator& client) REQUIRES(mutex_);
  void finish(Clients::iterator client);

  const Options options_;
  Mutex mutex_;
  std::condition_variable_any has_work_;
  Clients clients_ GUARDED_BY(mutex_);                      // with tasks that are queued or run
  std::deque<Clients::iterator> turns_ GUARDED_BY(mutex_);  // those with queued ones, once each
  std::size_t count_ GUARDED_BY(mutex_) = 0;                // queued
  bool ending_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace sluice::serve
