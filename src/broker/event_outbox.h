// Events that wait for delivery to the listener, in the order they happened.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "base/mutex.h"
#include "broker/broker.h"
#include "broker/store/store.h"

namespace sluice::broker {

// A change and the lease as it was right after it.
struct PendingEvent {
  Change change;
  Lease lease;
  Moment at;
};
BrokerEvent event_of(const PendingEvent& pending);

// Not thread-safe: one lock is held for every call, and given up by those that wait.
class EventOutbox {
 public:
  using Listener = std::function<void(const BrokerEvent&)>;

  // Without a listener events are dropped. A peer that makes events faster than they can be
  // delivered misses some of its own, not those of others.
  void push(PendingEvent&& event);
  void notify();  // after push(): ends wait()
  void wait(Mutex& mutex, std::stop_token stop) REQUIRES(mutex);

  // Null drops what waits. None is being delivered to an earlier listener afterwards.
  void listen(Listener listener, Mutex& mutex) REQUIRES(mutex);

  // One thread delivers at a time; others leave their events to it. Whoever begins calls take()
  // until it is false, and calls the listener without the lock in between.
  struct Batch {
    Listener to;
    std::deque<PendingEvent> events;
    void deliver() const;
  };
  bool begin();  // false: another thread delivers, or nothing waits
  bool take(Batch& batch);

 private:
  std::deque<PendingEvent> events_;
  std::map<std::string, std::size_t> by_peer_;  // how many of each
  bool is_delivering_ = false;
  Listener listener_;
  std::condition_variable_any delivered_, has_events_;
};

}  // namespace sluice::broker
