// What is free on one card: load_on() and room_on() of place.h.
#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "broker/place.h"

namespace sluice::broker {

namespace {

bool before(const HolderUse& a, const HolderUse& b) {
  return a.holder.pid != b.holder.pid ? a.holder.pid < b.holder.pid
                                      : a.holder.start_time < b.holder.start_time;
}

// Promises to one process become one.
void merge(std::vector<HolderUse>& holders) {
  std::ranges::sort(holders, before);
  std::size_t kept = 0;
  for (const auto& next : holders) {
    if (kept > 0 && !before(holders[kept - 1], next)) {
      auto& same = holders[kept - 1];
      same.promised += next.promised, same.fresh += next.fresh, same.unlisted += next.unlisted;
    } else {
      holders[kept++] = next;
    }
  }
  holders.resize(kept);
}

std::vector<HolderUse> holders_of(const Card& card, std::span<const Promise> promises) {
  std::vector<HolderUse> holders;
  holders.reserve(promises.size());
  for (const auto& promise : promises) {
    if (!counts(promise, card)) continue;
    const bool is_fresh = !card.sampled_at || promise.granted_at > *card.sampled_at;
    const bool is_unlisted = !card.processes_at || promise.granted_at > *card.processes_at;
    holders.push_back({promise.holder, promise.bytes, is_fresh ? promise.bytes : 0,
                       is_unlisted ? promise.bytes : 0, 0, true});
  }
  merge(holders);
  return holders;
}

// Adds what each holder really uses; answers with what strangers do.
std::uint64_t read_list(const Card& card, std::vector<HolderUse>& holders) {
  if (!card.processes_at) return 0;
  std::uint64_t strangers = 0;
  for (const auto& process : card.processes) {
    auto at = std::ranges::lower_bound(holders, process.pid, {},
                                       [](const HolderUse& u) { return u.holder.pid; });
    while (at != holders.end() && at->holder.pid == process.pid && !is_holder(at->holder, process))
      ++at;
    if (at == holders.end() || !is_holder(at->holder, process)) {
      strangers += process.bytes.value_or(0);
    } else if (process.bytes) {
      at->used += *process.bytes;
    } else {
      at->is_told = false;
    }
  }
  // A list older than the sample cannot know better than it.
  const bool is_older = card.sampled_at && *card.processes_at < *card.sampled_at;
  return is_older ? std::min(strangers, card.used) : strangers;
}

}  // namespace

bool is_holder(const Holder& holder, const CardProcess& process) noexcept {
  return holder.pid > 0 && holder.pid == process.pid &&
         (holder.start_time == 0 || process.start_time == 0 ||
          holder.start_time == process.start_time);
}

bool counts(const Promise& promise, const Card& card) noexcept {
  return !promise.given_back_at || !card.sampled_at || *card.sampled_at <= *promise.given_back_at;
}

CardUse use_on(const Card& card, std::span<const Promise> promises) {
  CardUse use{holders_of(card, promises), 0};
  use.strangers = read_list(card, use.holders);
  return use;
}

Load load_on(const Card& card, std::span<const Promise> promises) {
  const auto use = use_on(card, promises);
  Load load{0, use.strangers, 0};
  std::uint64_t physical = card.used;  // and what cannot have been in it yet
  std::uint64_t known = 0;             // by holders that the list tells apart
  std::uint64_t hidden = 0;            // promised to those who may be among the strangers
  for (const auto& holder : use.holders) {
    load.promised += holder.promised;
    const auto settled = std::max(holder.used, holder.promised - holder.fresh);
    physical += holder.promised - std::min(holder.promised, settled);
    if (holder.holder.pid > 0 && holder.is_told) {
      known += std::max(holder.promised, holder.used);
    } else {
      known += holder.unlisted;
      hidden += holder.promised - holder.unlisted;
    }
  }
  load.taken = std::max(physical, known + std::max(load.strangers, hidden));
  return load;
}

bool is_open(const Card& card, Instant now, Seconds stale) noexcept {
  return card.usable && !card.excluded && card.sampled_at &&
         seconds_between(*card.sampled_at, now) <= stale.count();
}

std::string why_closed(const Card& card, Instant now, Seconds stale) {
  if (is_open(card, now, stale)) return {};
  if (card.excluded) return "not chosen for work";
  if (!card.usable) return card.why_unusable.empty() ? "not usable now" : card.why_unusable;
  if (!card.sampled_at) return "it has not been sampled yet, so nothing is known to be free";
  return fmt::format("its last sample is {} old, so nothing is known to be free",
                     human_duration(seconds_between(*card.sampled_at, now)));
}

Room room_on(const Card& card, std::span<const Promise> promises, Instant now, Seconds stale) {
  const auto load = load_on(card, promises);
  Room room{0, load.promised, load.strangers, why_closed(card, now, stale)};
  if (room.why.empty() && card.total > load.taken) room.free = card.total - load.taken;
  return room;
}

}  // namespace sluice::broker
