// When the timer's thread wakes up next. Not thread-safe: one lock is held for every call, and
// given up by wait().
#pragma once

#include <algorithm>
#include <condition_variable>
#include <stop_token>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice::broker {

class Alarm {
 public:
  // The thread that waits wakes up at `at`, if that is sooner than it would.
  void set(Instant at) {
    if (at >= wake_at_) return;
    wake_at_ = at;
    is_sooner_ = true;
    changed_.notify_one();
  }

  // Returns at `until` by the clock `now`, or sooner: see set().
  template <class Clock>
  void wait(Instant until, const Clock& now, Mutex& mutex, std::stop_token stop) REQUIRES(mutex) {
    wake_at_ = until;
    for (auto t = now(); t < wake_at_ && !stop.stop_requested(); t = now()) {
      is_sooner_ = false;
      changed_.wait_for(mutex, stop, wake_at_ - t, [this] { return is_sooner_; });
    }
  }

 private:
  Instant wake_at_{};
  bool is_sooner_ = false;
  std::condition_variable_any changed_;
};

}  // namespace sluice::broker
