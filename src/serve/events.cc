#include "serve/events.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace sluice::serve {

namespace {

// Of all listeners of one client.
constexpr auto kPictureEvery = std::chrono::milliseconds(5), kEventsEvery = kPictureEvery;
constexpr auto kEventsOfSubjectEvery = std::chrono::milliseconds(1);
constexpr auto kHeartbeat = std::chrono::seconds(15);     // proxies cut what is silent for a minute
constexpr std::string_view kOpening = "retry: 1000\n\n";  // a browser comes back after this many ms
constexpr std::string_view kHeartbeatText = ": still here\n\n";

template <class T>
std::optional<T> whole_number(std::string_view text) {
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
  if (owned_.size() >= kMostOwners) {
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

EventRing::News EventRing::since(std::uint64_t after, std::string_view subject) const {
  const Lock lock(mutex_);
  News news;
  news.newest = newest_;
  if (after >= newest_) return news;
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
  for (; seen < kept.size() && news.text.size() < kMostAtOnce; ++seen)
    if (subject.empty() || kept[seen]->subject == subject) news.text += kept[seen]->text;
  news.is_cut = seen < kept.size();
  if (news.is_cut) news.newest = kept[seen - 1]->number;
  if (subject.empty() || dropped > after) news.missed = news.newest - after - seen;
  return news;
}

std::uint64_t EventRing::newest() const {
  const Lock lock(mutex_);
  return newest_;
}

std::optional<std::uint64_t> EventRing::resume(std::string_view last_event_id) const {
  const auto dash = last_event_id.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto epoch = whole_number<std::int64_t>(last_event_id.substr(0, dash));
  const auto number = whole_number<std::uint64_t>(last_event_id.substr(dash + 1));
  if (!epoch || !number) return std::nullopt;
  return *epoch == epoch_ ? std::min(*number, newest()) : 0;
}

EventCursor::EventCursor(const EventRing& ring, std::uint64_t after,
                         std::optional<Seconds> interval, LatestPicture latest, std::string subject,
                         Company company)
    : ring_(ring),
      after_(after),
      interval_(interval ? std::optional(std::chrono::duration_cast<Steady::duration>(*interval))
                         : std::nullopt),
      latest_(std::move(latest)),
      subject_(std::move(subject)),
      company_(std::move(company)) {}

Steady::duration EventCursor::interval() const noexcept {
  return std::max<Steady::duration>(*interval_, company_.use_count() * kPictureEvery);
}

Instant EventCursor::pull(Instant now, std::string& out) {
  const auto before = out.size();
  if (!std::exchange(began_, true)) out += kOpening;
  append_events(now, out);
  if (interval_) append_picture(now, out);
  if (out.size() == before && now >= heartbeat_due_) out += kHeartbeatText;
  if (out.size() != before) heartbeat_due_ = now + kHeartbeat;
  const auto due = interval_ ? std::min(picture_due_, heartbeat_due_) : heartbeat_due_;
  return after_ < ring_.newest() ? std::min(due, events_due_) : due;
}

void EventCursor::append_events(Instant now, std::string& out) {
  if (now < events_due_) return;
  const auto news = ring_.since(after_, subject_);
  if (news.newest == after_) return;
  after_ = news.newest;
  events_due_ =
      now + company_.use_count() * (subject_.empty() ? kEventsEvery : kEventsOfSubjectEvery);
  if (news.missed > 0)
    out += sse_message("gap", {}, "{\"missed\":" + std::to_string(news.missed) + "}");
  out += news.text;
}

void EventCursor::append_picture(Instant now, std::string& out) {
  const auto picture = latest_(now);
  if (picture.text == nullptr) {
    picture_due_ = now + interval();
    return;
  }
  const bool urgent = picture.urgency != sent_urgency_;
  if (now < picture_due_ && !urgent) return;
  picture_due_ = now + interval();
  if (picture.sequence == sent_sequence_) return;
  sent_sequence_ = picture.sequence;
  sent_urgency_ = picture.urgency;
  out += sse_message("snapshot", {}, *picture.text);
}

}  // namespace sluice::serve
