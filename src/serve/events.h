// What happened lately, for those who listen (server-sent events). Listeners ask
// for what is new since an id; a ring bounds what is kept for the slow ones. Events with a
// subject, of which there may be thousands a second, push out no others, and those of one owner
// not those of another: each kind and each owner has a ring of its own, under one numbering.
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

  // `subject`: what it is about, for those who listen to that alone. `owner`: whose it is; of the
  // owners with subjects the kMostOwners who had events last are kept.
  void add(std::string_view type, std::string_view json, std::string_view subject = {},
           std::string_view owner = {});
  static constexpr std::size_t kMostOwners = 16;

  struct News {
    std::string text;          // as the event-stream format wants it
    std::uint64_t newest = 0;  // pass as `after` next time
    bool is_cut = false;       // there is more behind it
    std::uint64_t missed = 0;  // no longer kept; for one subject, only when some with a
                               // subject are not
  };
  News since(std::uint64_t after, std::string_view subject = {}) const;  // empty: any
  static constexpr std::size_t kMostAtOnce = 64 << 10;  // of text, but for the last event's

  std::uint64_t newest() const;

  // Where a listener stopped, from the id of the last event it saw. One of another
  // run means all that is kept; nothing when it is no id of ours.
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

// One message of the event-stream format. `data` must not contain a line break.
std::string sse_message(std::string_view type, std::string_view id, std::string_view data);

// One listener's place: decides what is due. The picture of the machine is sent
// every `interval`, at once when its `urgency` has changed, and never twice.
class EventCursor {
 public:
  struct Picture {
    std::uint64_t sequence = 0;
    std::uint64_t urgency = 0;  // changes when something happened that must be seen now
    std::shared_ptr<const std::string> text;
  };
  using LatestPicture = std::function<Picture(Instant now)>;
  // One is held by each listener of the same client.
  using Company = std::shared_ptr<const void>;

  // No interval: events only, of `subject` unless that is empty. `ring` must outlive it.
  // A client with many listeners has its pictures in turn, 200 a second, and its news as well: 200
  // a second, and 1000 where each hears of one subject.
  EventCursor(const EventRing& ring, std::uint64_t after, std::optional<Seconds> interval,
              LatestPicture latest, std::string subject = {}, Company company = {});

  // Appends what is due; returns when to ask again.
  Instant pull(Instant now, std::string& out);

 private:
  void append_events(Instant now, std::string& out);
  void append_picture(Instant now, std::string& out);
  Steady::duration interval() const noexcept;

  const EventRing& ring_;
  std::uint64_t after_;
  const std::optional<Steady::duration> interval_;
  const LatestPicture latest_;
  const std::string subject_;
  const Company company_;
  std::uint64_t sent_sequence_ = 0, sent_urgency_ = 0;
  bool began_ = false;
  Instant picture_due_{}, heartbeat_due_{}, events_due_{};
};

}  // namespace sluice::serve
