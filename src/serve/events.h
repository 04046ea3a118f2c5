// Recent events for listeners (server-sent events). A listener asks for the events after an id; a
// ring buffer bounds what is kept for slow listeners. Events with a subject, of which there may be
// thousands a second, evict no others, and those of one owner evict none of another: each kind and
// each owner has a separate ring, under one numbering.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice::serve {

// Thread-safe.
class EventRing {
 public:
  // `epoch` sets the ids of this run apart from those of another; `capacity` is of each kind, and
  // its owners share it evenly.
  EventRing(std::int64_t epoch, std::size_t capacity) : epoch_(epoch), capacity_(capacity) {}

  // `subject` names what the event is about, for listeners of that subject. `owner` is the peer it
  // belongs to; the kMaxOwners owners with the most recent events are kept.
  void add(std::string_view type, std::string_view json, std::string_view subject = {},
           std::string_view owner = {});
  static constexpr std::size_t kMaxOwners = 16;

  struct Batch {
    std::string text;           // in the event-stream format
    std::uint64_t newest = 0;   // pass as `after` next time
    bool is_truncated = false;  // more events follow
    std::uint64_t missed = 0;   // no longer kept; for one subject, only when some with a
                                // subject are not
  };
  Batch since(std::uint64_t after, std::string_view subject = {}) const;  // empty: any
  static constexpr std::size_t kMaxAtOnce = 64 << 10;  // of text, but for the last event's

  std::uint64_t newest() const;

  // The number after which a listener resumes, from the id of the last event it saw. An id of
  // another run replays everything kept; nothing when the id is invalid.
  std::optional<std::uint64_t> resume(std::string_view last_event_id) const;

 private:
  struct Entry {
    std::uint64_t number;
    std::string text, subject;
  };
  struct Kind {
    std::deque<Entry> entries;
    std::uint64_t dropped = 0;  // number of the last that was pushed out
    void trim(std::size_t capacity);
  };
  Kind& of_owner(std::string_view owner) REQUIRES(mutex_);
  const std::int64_t epoch_;
  const std::size_t capacity_;
  mutable Mutex mutex_;
  Kind plain_ GUARDED_BY(mutex_);
  std::map<std::string, Kind, std::less<>> owned_ GUARDED_BY(mutex_);  // with a subject, by owner
  std::uint64_t owners_dropped_ GUARDED_BY(mutex_) = 0;  // number of the last of an owner let go
  std::uint64_t newest_ GUARDED_BY(mutex_) = 0;
};

// Formats one event-stream message. `data` must not contain a line break.
std::string sse_message(std::string_view type, std::string_view id, std::string_view data);

// The position of one listener, which decides what is due. The state of the machine is sent
// every `interval`, at once when its `urgency` has changed, and never twice.
class EventCursor {
 public:
  struct MachineState {
    std::uint64_t sequence = 0;
    std::uint64_t urgency = 0;  // changes when the state must be sent at once
    std::shared_ptr<const std::string> text;
  };
  using LatestState = std::function<MachineState(Instant now)>;
  // Shared by the listeners of one client: its use count divides the client's rate.
  using ClientGroup = std::shared_ptr<const void>;

  // Without an interval only events are sent, those of `subject` unless that is empty. `ring` must
  // outlive it. The listeners of one client share 200 states and 200 event batches a second, or
  // 1000 batches where each listens to one subject.
  EventCursor(const EventRing& ring, std::uint64_t after, std::optional<Seconds> interval,
              LatestState latest, std::string subject = {}, ClientGroup client_group = {});

  // Appends what is due; returns when to ask again.
  Instant pull(Instant now, std::string& out);

 private:
  void append_events(Instant now, std::string& out);
  void append_state(Instant now, std::string& out);
  Steady::duration interval() const noexcept;
  Steady::duration events_interval() const noexcept;

  const EventRing& ring_;
  std::uint64_t after_;
  const std::optional<Steady::duration> interval_;
  const LatestState latest_;
  const std::string subject_;
  const ClientGroup client_group_;
  std::uint64_t sent_sequence_ = 0, sent_urgency_ = 0;
  bool began_ = false;
  Instant state_due_{}, heartbeat_due_{}, events_due_{};
};

}  // namespace sluice::serve
