// Who is served next, and what is kept for whom.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

struct Place {
  std::int64_t step;
  double share;
  Instant asked_at;
  LeaseId id;
  Entry* entry;
  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.step, a.share, a.asked_at, a.id) <
           std::tie(b.step, b.share, b.asked_at, b.id);
  }
};

QueueKey key_of(const Entry& entry) { return {entry.step, entry.lease.asked_at, entry.lease.id}; }

std::uint64_t less(std::uint64_t from, std::uint64_t by) { return from > by ? from - by : 0; }

}  // namespace

// The score in whole steps, told by the time at which it was or will be zero: as all
// grow older together, this never changes.
void Ledger::Impl::set_step(Entry& entry) const {
  const double ageing = std::max(policy.ageing.count(), 1e-3);
  const double asked = Seconds(entry.lease.asked_at.time_since_epoch()).count();
  entry.step = static_cast<std::int64_t>(std::floor(asked / ageing)) -
               static_cast<std::int64_t>(entry.lease.wanted.priority);
}

void Ledger::Impl::enqueue(Entry& entry) {
  set_step(entry);
  (entry.lease.state == State::waiting ? queue : on_cpu).emplace(key_of(entry), &entry);
}

void Ledger::Impl::dequeue(Entry& entry) {
  if (queue.erase(key_of(entry)) == 0) on_cpu.erase(key_of(entry));
  if (!entry.is_keeper) return;
  entry.is_keeper = false;
  drop(keepers, &entry);
  must_serve = true;  // what was kept for it is for others now
}

void Ledger::Impl::make_keeper(Entry& entry) {
  if (!std::exchange(entry.is_keeper, true)) keepers.push_back(&entry);
}

void Ledger::Impl::restep() {
  for (auto* list : {&queue, &on_cpu})
    for (auto& [key, entry] : std::exchange(*list, {})) enqueue(*entry);
}

std::string Ledger::Impl::why_never(const Wanted& wanted) const {
  if (auto over = why_over_quota(wanted); !over.empty()) return over;
  return has_all ? never_fits(wanted, seen) : std::string();
}

Turn Ledger::Impl::new_turn() {
  Turn turn;
  turn.free.resize(cards.size());
  turn.reserved = reserved_for(nullptr);
  turn.kept.resize(cards.size());
  turn.claimed.resize(cards.size());
  turn.of_users.resize(cards.size());
  for (CardIndex i = 0; i < cards.size(); ++i) turn.free[i] = free_on(cards[i]);
  turn.most_free = turn.free.empty() ? 0 : *std::ranges::max_element(turn.free);
  for (const auto* keeper : keepers)
    for (std::size_t i = 0; i < keeper->claimed.size(); ++i)
      keep(turn, &Turn::claimed, *keeper, keeper->targets[i],
           static_cast<std::int64_t>(keeper->claimed[i]));
  return turn;
}

void Ledger::Impl::keep(Turn& turn, Amounts Turn::*as, const Entry& keeper, CardIndex card,
                        std::int64_t bytes) {
  const auto more = static_cast<std::uint64_t>(bytes);  // or less: it wraps around
  (turn.*as)[card] += more;
  if (!keeper.lease.wanted.by_admin) turn.of_users[card] += more;
}

// From here on it is kept for `keeper` in full, or not at all.
void Ledger::Impl::release_claims(const Entry& keeper, Turn& turn) const {
  for (std::size_t i = 0; i < keeper.claimed.size(); ++i)
    keep(turn, &Turn::claimed, keeper, keeper.targets[i],
         -static_cast<std::int64_t>(keeper.claimed[i]));
}

void Ledger::Impl::keep_for(const Entry& keeper, Turn& turn) const {
  if (!keeper.is_holding) return;
  release_claims(keeper, turn);
  const auto least = least_bytes(keeper.lease.wanted);
  if (keeper.is_kept_from_all) {
    for (const auto card : keeper.targets)
      keep(turn, &Turn::kept, keeper, card, static_cast<std::int64_t>(least));
    return;
  }
  auto& within = turn.kept_within[keeper.peer];
  within.resize(cards.size());
  for (const auto card : keeper.targets) within[card] += least;
}

bool Ledger::Impl::is_ahead(const Entry& keeper, const Entry& newcomer) const {
  if (newcomer.lease.wanted.by_admin && !keeper.lease.wanted.by_admin) return false;
  if (keeper.step != newcomer.step) return keeper.step < newcomer.step;
  return share_of(*keeper.agent, now) <= share_of(*newcomer.agent, now);
}

void Ledger::Impl::keep_for_those_ahead(const Entry& newcomer, Turn& turn) const {
  for (const auto* keeper : keepers)
    if (keeper != &newcomer && keeper->is_holding && is_ahead(*keeper, newcomer))
      keep_for(*keeper, turn);
}

// For others than `entry`; what it claimed is its own, whoever is ahead.
std::uint64_t Ledger::Impl::kept_on(CardIndex card, const Entry& entry, const Turn& turn) const {
  auto all = turn.kept[card] + turn.claimed[card];
  if (entry.lease.wanted.by_admin) all -= turn.of_users[card];
  if (const auto own = turn.kept_within.find(entry.peer); own != turn.kept_within.end())
    all += own->second[card];
  for (std::size_t i = 0; i < entry.claimed.size(); ++i)
    if (entry.targets[i] == card)
      return std::min(all - entry.claimed[i] + turn.reserved[card],
                      less(turn.free[card] + cards[card].draining, entry.claimed[i]));
  return all + turn.reserved[card];
}

// A quick no. The agent that room is reserved for takes the long way.
bool Ledger::Impl::may_fit(const Entry& entry, const Turn& turn) const {
  const auto least = least_bytes(entry.lease.wanted);
  if (least > turn.most_free) return false;
  if (entry.agent->is_reserved_for) return true;
  for (CardIndex i = 0; i < turn.free.size(); ++i)
    if (turn.free[i] >= least && turn.free[i] >= least + kept_on(i, entry, turn)) return true;
  return false;
}

// One for each card, in the same order.
std::vector<Site> Ledger::Impl::sites_for(const Entry& entry, const Turn& turn, bool with_reasons) {
  std::vector<Site> sites(cards.size());
  const auto own = entry.agent->is_reserved_for ? reserved_for(entry.agent) : turn.reserved;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    auto& site = sites[i];
    site.card = &cards[i].card;
    site.room.free = turn.free[i];
    site.held_back = less(kept_on(i, entry, turn), turn.reserved[i] - own[i]);
    if (with_reasons) site.room.why = why_closed(*site.card, now, policy.stale);
  }
  return sites;
}

Choice Ledger::Impl::choose_for(const Entry& entry, std::span<const Site> sites) const {
  const auto left = quota_left(entry);
  if (!left || *left >= entry.lease.wanted.bytes) return choose(entry.lease.wanted, sites);
  if (*left < least_bytes(entry.lease.wanted)) return {};
  auto within = entry.lease.wanted;
  within.bytes = *left;
  return choose(within, sites);
}

void Ledger::Impl::grant(Entry& entry, const Choice& choice, std::span<const Site> sites,
                         Changes& changes) {
  auto& lease = entry.lease;
  if (lease.state == State::waiting) {
    dequeue(entry);
    withdraw_asks(entry, changes);
  }
  lease.reason = explain(lease.wanted, sites, choice);
  set_state(entry, State::held);
  lease.granted_at = now;
  lease.expires_at = later(now, lease.wanted.ttl);
  accrue(*entry.agent, now);
  for (const auto site : choice.sites) {
    lease.parts.push_back({sites[site].card->uuid, choice.bytes});
    seat(entry, static_cast<CardIndex>(site), choice.bytes);
    count_bytes(entry, static_cast<CardIndex>(site), choice.bytes, true);
  }
  watch_deadline(entry);
  changes.push_back(
      {Change::What::granted, lease.id, choice.bytes * choice.sites.size(), {}, lease.reason});
}

bool Ledger::Impl::try_grant(Entry& entry, Turn& turn, Changes& changes) {
  if (!may_fit(entry, turn)) return false;
  const auto sites = sites_for(entry, turn, false);
  const auto choice = choose_for(entry, sites);
  if (choice.sites.empty()) return false;
  release_claims(entry, turn);
  grant(entry, choice, sites, changes);
  for (const auto i : choice.sites) turn.free[i] = free_on(cards[i]);
  if (entry.agent->is_reserved_for) turn.reserved = reserved_for(nullptr);
  turn.most_free = *std::ranges::max_element(turn.free);
  return true;
}

bool Ledger::Impl::are_good_targets(const Entry& entry) const {
  if (const auto left = quota_left(entry); left && *left < least_bytes(entry.lease.wanted))
    return false;
  return entry.targets.size() == entry.lease.wanted.gpus &&
         std::ranges::all_of(entry.targets, [&](CardIndex i) {
           return cards[i].card.usable && !cards[i].card.excluded;
         });
}

// The cards where the least is missing, of those that could carry it once all leases
// were gone.
void Ledger::Impl::choose_targets(Entry& entry, const Turn& turn) {
  const auto& wanted = entry.lease.wanted;
  const auto least = least_bytes(wanted);
  entry.targets.clear();
  if (const auto left = quota_left(entry); left && *left < least) return;
  std::vector<std::pair<std::int64_t, CardIndex>> found;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    auto& state = cards[i];
    if (!state.is_seen || !state.card.usable || state.card.excluded) continue;
    const auto most = less(less(state.card.total, load(state).strangers), turn.reserved[i]);
    if (!may_use(wanted, state.card) || most < least) continue;
    found.emplace_back(
        static_cast<std::int64_t>(turn.kept[i] + turn.claimed[i] + turn.reserved[i]) -
            static_cast<std::int64_t>(turn.free[i] + state.draining),
        i);
  }
  if (found.size() < wanted.gpus) return;
  std::ranges::sort(found);
  for (unsigned i = 0; i < wanted.gpus; ++i) entry.targets.push_back(found[i].second);
}

std::vector<Entry*> Ledger::Impl::in_order(Instant t) const {
  std::vector<Place> places;
  places.reserve(queue.size());
  for (const auto& [key, entry] : queue)
    places.push_back({key.step, share_of(*entry->agent, t), key.asked_at, key.id, entry});
  std::ranges::sort(places, std::less<>());
  std::vector<Entry*> order;
  order.reserve(places.size());
  for (const auto& place : places) order.push_back(place.entry);
  return order;
}

void Ledger::Impl::keep_room(Entry& entry, Turn& turn, Changes& changes) {
  if (now >= later(entry.lease.asked_at, policy.hold_after)) entry.is_holding = true;
  entry.is_kept_from_all = may_keep_room(entry) && !is_behind_its_own(entry);
  const bool is_asking = !entry.claimed.empty();
  if ((is_asking && !entry.is_kept_from_all) ||
      ((entry.is_holding || is_asking) && !are_good_targets(entry))) {
    release_claims(entry, turn);
    withdraw_asks(entry, changes);
    choose_targets(entry, turn);
    entry.is_kept_from_all = entry.is_kept_from_all && !is_behind_its_own(entry);
  }
  ask_to_yield(entry, turn, changes);
  if (entry.is_holding) make_keeper(entry);
  const bool is_kept = entry.is_holding ? !entry.targets.empty() : !entry.claimed.empty();
  if (is_kept && entry.is_kept_from_all) note_kept(entry);
  keep_for(entry, turn);
}

void Ledger::Impl::serve(Changes& changes) {
  must_serve = is_paused;
  if (is_paused) return;
  forget_keepings();
  auto turn = new_turn();
  for (auto* entry : in_order(now))
    if (!try_grant(*entry, turn, changes)) keep_room(*entry, turn, changes);
  tell_room(turn, changes);
  must_serve = false;
}

void Ledger::Impl::serve_if_needed(Changes& changes) {
  if (must_serve) serve(changes);
}

// Those told first are not told again until it was gone; the same bytes are not offered
// to two at once.
void Ledger::Impl::tell_room(Turn& turn, Changes& changes) {
  for (auto& [key, entry] : on_cpu) {
    Choice choice;
    if (may_fit(*entry, turn)) choice = choose_for(*entry, sites_for(*entry, turn, false));
    const bool is_news = !choice.sites.empty() && !entry->room_told;
    entry->room_told = !choice.sites.empty();
    if (!is_news) continue;
    for (const auto i : choice.sites) turn.free[i] -= choice.bytes;
    turn.most_free = *std::ranges::max_element(turn.free);
    changes.push_back({Change::What::room, entry->lease.id, choice.bytes * choice.sites.size(),
                       cards[choice.sites.front()].card.uuid,
                       "there is room for it on a GPU now; ask again"});
  }
}

}  // namespace sluice::broker
