#include "broker/ledger/card_load.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"

namespace sluice::broker {

namespace {

bool before(const HolderUse& a, const HolderUse& b) {
  return a.holder.pid != b.holder.pid ? a.holder.pid < b.holder.pid
                                      : a.holder.start_time < b.holder.start_time;
}

void add(HolderUse& sum, const HolderUse& next) {
  sum.promised += next.promised, sum.fresh += next.fresh, sum.unlisted += next.unlisted;
}

// Promises to one process become one.
void merge(std::vector<HolderUse>& holders) {
  std::ranges::sort(holders, before);
  std::size_t kept = 0;
  for (const auto& next : holders) {
    if (kept > 0 && !before(holders[kept - 1], next))
      add(holders[kept - 1], next);
    else
      holders[kept++] = next;
  }
  holders.resize(kept);
}

std::vector<HolderUse> holders_of(const Card& card, std::span<const Promise> promises) {
  std::vector<HolderUse> holders;
  for (const auto& promise : promises) {
    if (!counts(promise, card)) continue;
    const bool is_fresh = !card.sampled_at || promise.granted_at > *card.sampled_at;
    const bool is_unlisted = !card.processes_at || promise.granted_at > *card.processes_at;
    const HolderUse next{promise.holder,
                         promise.bytes,
                         is_fresh ? promise.bytes : 0,
                         is_unlisted ? promise.bytes : 0,
                         0,
                         true};
    // A process with many leases tends to ask for them in a row: fewer are left to sort.
    if (!holders.empty() && !before(holders.back(), next) && !before(next, holders.back()))
      add(holders.back(), next);
    else
      holders.push_back(next);
  }
  merge(holders);
  return holders;
}

// Adds what each holder really uses. Returns the bytes of unmanaged processes, which it adds to
// `found`.
std::uint64_t read_list(const Card& card, std::vector<HolderUse>& holders,
                        std::vector<CardProcess>* found) {
  if (!card.processes_at) return 0;
  std::uint64_t unmanaged = 0;
  for (const auto& process : card.processes) {
    auto at = std::ranges::lower_bound(holders, process.pid, {},
                                       [](const HolderUse& u) { return u.holder.pid; });
    while (at != holders.end() && at->holder.pid == process.pid && !is_holder(at->holder, process))
      ++at;
    if (at == holders.end() || !is_holder(at->holder, process)) {
      unmanaged += process.bytes.value_or(0);
      if (found != nullptr)
        found->push_back({process.pid, process.start_time, process.bytes, {}, {}});
    } else if (process.bytes) {
      at->used += *process.bytes;
    } else {
      at->is_reported = false;
    }
  }
  // A list older than the sample cannot know better than it.
  const bool is_older = card.sampled_at && *card.processes_at < *card.sampled_at;
  return is_older ? std::min(unmanaged, card.used) : unmanaged;
}

bool comes_before(const CardProcess& a, const CardProcess& b) {
  return a.pid != b.pid ? a.pid < b.pid : a.start_time < b.start_time;
}

// One entry for each process, without names.
std::vector<CardProcess> sorted(std::vector<CardProcess> processes) {
  std::ranges::sort(processes, comes_before);
  std::vector<CardProcess> one_each;
  for (auto& next : processes) {
    const auto bytes = next.bytes.value_or(0);
    if (one_each.empty() || comes_before(one_each.back(), next))
      one_each.push_back({next.pid, next.start_time, bytes, {}, {}});
    else
      *one_each.back().bytes += bytes;
  }
  return one_each;
}

// The bytes that `unmanaged` took since `before`; both in the order of sorted().
std::uint64_t taken_since(const InUse& before, std::span<const CardProcess> unmanaged) {
  std::uint64_t grown = 0;
  auto had = before.processes.begin();
  for (const auto& now : unmanaged) {
    while (had != before.processes.end() && comes_before(*had, now)) ++had;
    const bool is_known = had != before.processes.end() && !comes_before(now, *had);
    const auto then = is_known ? *had->bytes : 0;
    if (*now.bytes > then) grown += *now.bytes - then;
  }
  return grown > before.unlisted ? grown - before.unlisted : 0;
}

// The promises to holders without a pid whose memory may be among that of unmanaged processes.
// Later promises come first: their memory is a part of what earlier ones may have. The bytes
// that an old list has beyond `used` are gone, and may have been these.
std::uint64_t among_unmanaged(const Card& card, std::span<const Promise> promises,
                              std::uint64_t used, std::vector<CardProcess> unmanaged) {
  std::vector<const Promise*> unknown;
  for (const auto& promise : promises)
    if (promise.holder.pid == 0 && promise.before && counts(promise, card) &&
        promise.granted_at <= *card.processes_at)
      unknown.push_back(&promise);
  if (unknown.empty()) return 0;
  std::ranges::sort(unknown, std::greater<>(), &Promise::granted_at);
  unmanaged = sorted(std::move(unmanaged));
  std::uint64_t sum = 0, max_taken = 0;
  const InUse* last = nullptr;
  for (const auto* promise : unknown) {
    if (promise->before.get() != last) max_taken = taken_since(*promise->before, unmanaged);
    last = promise->before.get();
    sum = std::max(sum, std::min(sum + promise->bytes, max_taken));
  }
  std::uint64_t listed = 0;
  for (const auto& unmanaged_process : unmanaged) listed += *unmanaged_process.bytes;
  const auto gone = listed - std::min(listed, used);
  return sum - std::min(sum, gone);
}

}  // namespace

InUse in_use_on(const Card& card) {
  InUse use{sorted(card.processes), card.used};
  for (const auto& process : use.processes)
    use.unlisted -= std::min(use.unlisted, process.bytes.value_or(0));
  return use;
}

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
  use.unmanaged = read_list(card, use.holders, nullptr);
  return use;
}

Load load_on(const Card& card, std::span<const Promise> promises) {
  auto holders = holders_of(card, promises);
  const bool has_unknown = !holders.empty() && holders.front().holder.pid == 0;
  std::vector<CardProcess> unmanaged;
  Load load{0, read_list(card, holders, has_unknown ? &unmanaged : nullptr), 0};
  std::uint64_t physical = card.used;  // and what cannot have been in it yet
  std::uint64_t known = load.unmanaged;
  for (const auto& holder : holders) {
    load.promised += holder.promised;
    const auto settled = std::max(holder.used, holder.promised - holder.fresh);
    physical += holder.promised - std::min(holder.promised, settled);
    known += std::max(holder.promised, holder.used);
  }
  if (!unmanaged.empty()) known -= among_unmanaged(card, promises, load.unmanaged, unmanaged);
  load.taken = std::max(physical, known);
  return load;
}

bool is_open(const Card& card, Instant now, Seconds stale) noexcept {
  return card.usable && !card.excluded && card.sampled_at &&
         seconds_between(*card.sampled_at, now) <= stale.count() * card.slowness;
}

std::string why_closed(const Card& card, Instant now, Seconds stale) {
  if (is_open(card, now, stale)) return {};
  if (card.excluded) return "not chosen for work";
  if (!card.usable) return card.why_unusable.empty() ? "not usable now" : card.why_unusable;
  if (!card.sampled_at) return "it has not been sampled yet, so nothing is known to be free";
  return fmt::format("its last sample is {} old, so nothing is known to be free",
                     human_duration(seconds_between(*card.sampled_at, now)));
}

CardCapacity capacity_on(const Card& card, std::span<const Promise> promises, Instant now,
                         Seconds stale) {
  const auto load = load_on(card, promises);
  CardCapacity capacity{0, load.promised, load.unmanaged, why_closed(card, now, stale)};
  if (capacity.why.empty() && card.total > load.taken) capacity.free = card.total - load.taken;
  return capacity;
}

}  // namespace sluice::broker
