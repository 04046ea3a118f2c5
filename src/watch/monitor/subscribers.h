// Subscribers to snapshots and events. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "watch/monitor/monitor.h"

namespace sluice::watch {

class Subscribers {
 public:
  // Destroying the token waits for a callback that runs on another thread; it may
  // also be destroyed from within one.
  std::shared_ptr<void> add(Monitor::OnSnapshot on_snapshot, Monitor::OnEvent on_event);

  void publish(const std::shared_ptr<const Snapshot>& snapshot);
  void publish(const Event& event);

 private:
  struct One {
    std::recursive_mutex mutex;  // recursive: a callback may end its own subscription
    bool over = false;
    Monitor::OnSnapshot on_snapshot;
    Monitor::OnEvent on_event;
  };
  std::vector<std::shared_ptr<One>> all();

  std::mutex mutex_;
  std::vector<std::weak_ptr<One>> list_;
};

}  // namespace sluice::watch
