// Threads that serve several owners in turn: one who asks for much waits for himself, and
// keeps others waiting for a task at most.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace sluice::serve {

struct TurnPoolOptions {
  std::size_t threads = 2;
  std::size_t most_each = 1;      // tasks of one owner that run at once
  std::size_t most_waiting = 64;  // of all owners; of one: three quarters of them
  int niceness = 0;               // of its threads: above 0 they leave the cores to others
};

class TurnPool {
 public:
  explicit TurnPool(TurnPoolOptions options);
  ~TurnPool();  // drops what waits, and waits for what runs
  TurnPool(const TurnPool&) = delete;
  TurnPool& operator=(const TurnPool&) = delete;

  // Throws exhausted when too many wait, and leaves `task` alone. A task must not throw.
  using Task = std::function<void()>;
  void post(const std::string& owner, Task task);

 private:
  struct Owner {
    std::deque<Task> waiting;
    std::size_t running = 0;
  };

  void serve();
  // The next task of the owner whose turn it is; empty when there is none to run now.
  Task take(std::string& owner) REQUIRES(mutex_);
  void finish(const std::string& owner);

  const TurnPoolOptions options_;
  Mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, Owner> owners_ GUARDED_BY(mutex_);  // with tasks
  std::deque<std::string> turns_ GUARDED_BY(mutex_);        // owners with waiting ones, in turn
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::serve
