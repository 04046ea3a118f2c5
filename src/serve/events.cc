#include "serve/events.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace sluice::serve {

namespace {

// Rates of all listeners of one client together.
constexpr auto kStateEvery = std::chrono::milliseconds(5), kEventsEvery = kStateEvery;
constexpr auto kEventsOfSubjectEvery = std::chrono::milliseconds(1);
// A client with more listeners waits for a turn with the first events of each, too: every new one
// may ask for all events that are kept.
constexpr long kFewListeners = 40;
constexpr auto kHeartbeat = std::chrono::seconds(15);     // proxies cut what is silent for a minute
constexpr std::string_view kOpening = "retry: 1000\n\n";  // a browser comes back after this many ms
constexpr std::string_view kHeartbeatText = ": still here\n\n";

template <class T>
std::optional<T> integer(std::string_view text) {
  T value{};
  const auto* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, value);
  return failed == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string sse_message(std::string_view type, std::string_view id, std::string_view data) {
  std::string text;
  text.reserve(type.size() + id.size() + data.size() + 32);
  if (!id.empty()) text.append("id: ").append(id).append("\n");
  text.append("event: ").append(type).append("\ndata: ").append(data).append("\n\n");
  return text;
}

void EventRing::Kind::trim(std::size_t capacity) {
  while (entries.size() > capacity) {
    dropped = entries.front().number;
    entries.pop_front();
  }
}

EventRing::Kind& EventRing::of_owner(std::string_view owner) {
  const auto known = owned_.find(owner);
  if (known != owned_.end()) return known->second;
  if (owned_.size() >= kMaxOwners) {
    const auto quietest = std::ranges::min_element(
        owned_, {}, [](const auto& owned) { return owned.second.entries.back().number; });
    owners_dropped_ = std::max(owners_dropped_, quietest->second.entries.back().number);
    owned_.erase(quietest);
  }
  auto& made = owned_[std::string(owner)];
  for (auto& [name, kind] : owned_) kind.trim(std::max<std::size_t>(1, capacity_ / owned_.size()));
  return made;
}

void EventRing::add(std::string_view type, std::string_view json, std::string_view subject,
                    std::string_view owner) {
  const Lock lock(mutex_);
  const auto id = std::to_string(epoch_) + "-" + std::to_string(++newest_);
  auto& kind = subject.empty() ? plain_ : of_owner(owner);
  kind.entries.push_back({newest_, sse_message(type, id, json), std::string(subject)});
  const auto owners = subject.empty() ? 1 : owned_.size();
  kind.trim(std::max<std::size_t>(1, capacity_ / owners));
}

EventRing::Batch EventRing::since(std::uint64_t after, std::string_view subject) const {
  const Lock lock(mutex_);
  Batch batch;
  batch.newest = newest_;
  if (after >= newest_) return batch;
  std::vector<const Entry*> kept;
  const auto take = [&](const Kind& kind) {
    const auto from = std::ranges::upper_bound(kind.entries, after, {}, &Entry::number);
    for (auto at = from; at != kind.entries.end(); ++at) kept.push_back(&*at);
  };
  auto dropped = owners_dropped_;
  take(plain_);
  for (const auto& [owner, kind] : owned_) take(kind), dropped = std::max(dropped, kind.dropped);
  std::ranges::sort(kept, {}, &Entry::number);
  std::size_t seen = 0;
  for (; seen < kept.size() && batch.text.size() < kMaxAtOnce; ++seen)
    if (subject.empty() || kept[seen]->subject == subject) batch.text += kept[seen]->text;
  batch.is_truncated = seen < kept.size();
  if (batch.is_truncated) batch.newest = kept[seen - 1]->number;
  if (subject.empty() || dropped > after) batch.missed = batch.newest - after - seen;
  return batch;
}

std::uint64_t EventRing::newest() const {
  const Lock lock(mutex_);
  return newest_;
}

std::optional<std::uint64_t> EventRing::resume(std::string_view last_event_id) const {
  const auto dash = last_event_id.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto epoch = integer<std::int64_t>(last_event_id.substr(0, dash));
  const auto number = integer<std::uint64_t>(last_event_id.substr(dash + 1));
  if (!epoch || !number) return std::nullopt;
  return *epoch == epoch_ ? std::min(*number, newest()) : 0;
}

EventCursor::EventCursor(const EventRing& ring, std::uint64_t after,
                         std::optional<Seconds> interval, LatestState latest, std::string subject,
                         ClientGroup client_group)
    : ring_(ring),
      after_(after),
      interval_(interval ? std::optional(std::chrono::duration_cast<Steady::duration>(*interval))
                         : std::nullopt),
      latest_(std::move(latest)),
      subject_(std::move(subject)),
      client_group_(std::move(client_group)) {}

Steady::duration EventCursor::interval() const noexcept {
  return std::max<Steady::duration>(*interval_, client_group_.use_count() * kStateEvery);
}

Steady::duration EventCursor::events_interval() const noexcept {
  return client_group_.use_count() * (subject_.empty() ? kEventsEvery : kEventsOfSubjectEvery);
}

Instant EventCursor::pull(Instant now, std::string& out) {
  const auto before = out.size();
  if (!std::exchange(began_, true)) {
    out += kOpening;
    if (client_group_.use_count() > kFewListeners) events_due_ = now + events_interval();
  }
  append_events(now, out);
  if (interval_) append_state(now, out);
  if (out.size() == before && now >= heartbeat_due_) out += kHeartbeatText;
  if (out.size() != before) heartbeat_due_ = now + kHeartbeat;
  const auto due = interval_ ? std::min(state_due_, heartbeat_due_) : heartbeat_due_;
  return after_ < ring_.newest() ? std::min(due, events_due_) : due;
}

void EventCursor::append_events(Instant now, std::string& out) {
  if (now < events_due_) return;
  const auto batch = ring_.since(after_, subject_);
  if (batch.newest == after_) return;
  after_ = batch.newest;
  events_due_ = now + events_interval();
  if (batch.missed > 0)
    out += sse_message("gap", {}, "{\"missed\":" + std::to_string(batch.missed) + "}");
  out += batch.text;
}

void EventCursor::append_state(Instant now, std::string& out) {
  const auto state = latest_(now);
  if (state.text == nullptr) {
    state_due_ = now + interval();
    return;
  }
  const bool urgent = state.urgency != sent_urgency_;
  if (now < state_due_ && !urgent) return;
  state_due_ = now + interval();
  if (state.sequence == sent_sequence_) return;
  sent_sequence_ = state.sequence;
  sent_urgency_ = state.urgency;
  out += sse_message("snapshot", {}, *state.text);
}

}  // namespace sluice::serve
