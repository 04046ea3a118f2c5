// The queue: which request is served next, and which capacity is kept for it.
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
  Instant requested_at;
  LeaseId id;
  Entry* entry;
  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.step, a.share, a.requested_at, a.id) <
           std::tie(b.step, b.share, b.requested_at, b.id);
  }
};

QueueKey key_of(const Entry& entry) {
  return {entry.step, entry.lease.requested_at, entry.lease.id};
}

std::uint64_t less(std::uint64_t from, std::uint64_t by) { return from > by ? from - by : 0; }

}  // namespace

// The score in integer steps, stored as the time at which it was or will be zero: since all
// requests age together, this never changes.
void Ledger::Impl::set_step(Entry& entry) const {
  const double ageing = std::max(policy.ageing.count(), 1e-3);
  const double requested = Seconds(entry.lease.requested_at.time_since_epoch()).count();
  entry.step = static_cast<std::int64_t>(std::floor(requested / ageing)) -
               static_cast<std::int64_t>(entry.lease.request.priority);
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

std::string Ledger::Impl::why_never(const LeaseRequest& request) const {
  if (auto over = why_over_quota(request); !over.empty()) return over;
  return has_all ? never_fits(request, seen) : std::string();
}

SchedulingPass Ledger::Impl::begin_pass() {
  SchedulingPass pass;
  pass.free.resize(cards.size());
  pass.reserved = reserved_for(nullptr);
  pass.kept.resize(cards.size());
  pass.claimed.resize(cards.size());
  pass.of_users.resize(cards.size());
  for (CardIndex i = 0; i < cards.size(); ++i) pass.free[i] = free_on(cards[i]);
  pass.most_free = pass.free.empty() ? 0 : *std::ranges::max_element(pass.free);
  for (const auto* keeper : keepers)
    for (std::size_t i = 0; i < keeper->claimed.size(); ++i)
      keep(pass, &SchedulingPass::claimed, *keeper, keeper->targets[i],
           static_cast<std::int64_t>(keeper->claimed[i]));
  return pass;
}

void Ledger::Impl::keep(SchedulingPass& pass, Amounts SchedulingPass::*as, const Entry& keeper,
                        CardIndex card, std::int64_t bytes) {
  const auto more = static_cast<std::uint64_t>(bytes);  // or less: it wraps around
  (pass.*as)[card] += more;
  if (!keeper.lease.request.by_admin) pass.of_users[card] += more;
}

// From here on it is kept for `keeper` in full, or not at all.
void Ledger::Impl::release_claims(const Entry& keeper, SchedulingPass& pass) const {
  for (std::size_t i = 0; i < keeper.claimed.size(); ++i)
    keep(pass, &SchedulingPass::claimed, keeper, keeper.targets[i],
         -static_cast<std::int64_t>(keeper.claimed[i]));
}

void Ledger::Impl::keep_for(const Entry& keeper, SchedulingPass& pass) const {
  if (!keeper.is_holding) return;
  release_claims(keeper, pass);
  const auto min_bytes = min_bytes_per_gpu(keeper.lease.request);
  if (keeper.is_kept_from_all) {
    for (const auto card : keeper.targets)
      keep(pass, &SchedulingPass::kept, keeper, card, static_cast<std::int64_t>(min_bytes));
    return;
  }
  auto& within = pass.kept_within[keeper.peer];
  within.resize(cards.size());
  for (const auto card : keeper.targets) within[card] += min_bytes;
}

bool Ledger::Impl::is_ahead(const Entry& keeper, const Entry& newcomer) const {
  if (newcomer.lease.request.by_admin && !keeper.lease.request.by_admin) return false;
  if (keeper.step != newcomer.step) return keeper.step < newcomer.step;
  return share_of(*keeper.agent, now) <= share_of(*newcomer.agent, now);
}

void Ledger::Impl::keep_for_those_ahead(const Entry& newcomer, SchedulingPass& pass) const {
  for (const auto* keeper : keepers)
    if (keeper != &newcomer && keeper->is_holding && is_ahead(*keeper, newcomer))
      keep_for(*keeper, pass);
}

// Bytes kept for requests other than `entry`. What it claimed is its own, whoever is ahead.
std::uint64_t Ledger::Impl::kept_on(CardIndex card, const Entry& entry,
                                    const SchedulingPass& pass) const {
  auto all = pass.kept[card] + pass.claimed[card];
  if (entry.lease.request.by_admin) all -= pass.of_users[card];
  if (const auto own = pass.kept_within.find(entry.peer); own != pass.kept_within.end())
    all += own->second[card];
  for (std::size_t i = 0; i < entry.claimed.size(); ++i)
    if (entry.targets[i] == card)
      return std::min(all - entry.claimed[i] + pass.reserved[card],
                      less(pass.free[card] + cards[card].draining, entry.claimed[i]));
  return all + pass.reserved[card];
}

// Rejects most requests quickly. The agent that capacity is reserved for takes the full check.
bool Ledger::Impl::may_fit(const Entry& entry, const SchedulingPass& pass) const {
  const auto min_bytes = min_bytes_per_gpu(entry.lease.request);
  if (min_bytes > pass.most_free) return false;
  if (entry.agent->is_reserved_for) return true;
  for (CardIndex i = 0; i < pass.free.size(); ++i)
    if (pass.free[i] >= min_bytes && pass.free[i] >= min_bytes + kept_on(i, entry, pass))
      return true;
  return false;
}

// One for each card, in the same order.
std::vector<CandidateCard> Ledger::Impl::candidates_for(const Entry& entry,
                                                        const SchedulingPass& pass,
                                                        bool with_reasons) {
  std::vector<CandidateCard> candidates(cards.size());
  const auto own = entry.agent->is_reserved_for ? reserved_for(entry.agent) : pass.reserved;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    auto& candidate = candidates[i];
    candidate.card = &cards[i].card;
    candidate.capacity.free = pass.free[i];
    candidate.held_back = less(kept_on(i, entry, pass), pass.reserved[i] - own[i]);
    if (with_reasons) candidate.capacity.why = why_closed(*candidate.card, now, policy.stale);
  }
  return candidates;
}

Choice Ledger::Impl::choose_for(const Entry& entry,
                                std::span<const CandidateCard> candidates) const {
  const auto left = quota_left(entry);
  if (!left || *left >= entry.lease.request.bytes) return choose(entry.lease.request, candidates);
  if (*left < min_bytes_per_gpu(entry.lease.request)) return {};
  auto within = entry.lease.request;
  within.bytes = *left;
  return choose(within, candidates);
}

void Ledger::Impl::grant(Entry& entry, const Choice& choice,
                         std::span<const CandidateCard> candidates, Changes& changes) {
  auto& lease = entry.lease;
  if (lease.state == State::waiting) {
    dequeue(entry);
    withdraw_asks(entry, changes);
  }
  lease.reason = explain(lease.request, candidates, choice);
  set_state(entry, State::held);
  lease.granted_at = now;
  lease.expires_at = later(now, lease.request.ttl);
  accrue(*entry.agent, now);
  for (const auto candidate : choice.candidates) {
    lease.parts.push_back({candidates[candidate].card->uuid, choice.bytes});
    add_promise(entry, static_cast<CardIndex>(candidate), choice.bytes);
    count_bytes(entry, static_cast<CardIndex>(candidate), choice.bytes, true);
  }
  watch_deadline(entry);
  changes.push_back(
      {Change::What::granted, lease.id, choice.bytes * choice.candidates.size(), {}, lease.reason});
}

bool Ledger::Impl::try_grant(Entry& entry, SchedulingPass& pass, Changes& changes) {
  if (!may_fit(entry, pass)) return false;
  const auto candidates = candidates_for(entry, pass, false);
  const auto choice = choose_for(entry, candidates);
  if (choice.candidates.empty()) return false;
  release_claims(entry, pass);
  grant(entry, choice, candidates, changes);
  for (const auto i : choice.candidates) pass.free[i] = free_on(cards[i]);
  if (entry.agent->is_reserved_for) pass.reserved = reserved_for(nullptr);
  pass.most_free = *std::ranges::max_element(pass.free);
  return true;
}

bool Ledger::Impl::are_good_targets(const Entry& entry) const {
  if (const auto left = quota_left(entry); left && *left < min_bytes_per_gpu(entry.lease.request))
    return false;
  return entry.targets.size() == entry.lease.request.gpus &&
         std::ranges::all_of(entry.targets, [&](CardIndex i) {
           return cards[i].card.usable && !cards[i].card.excluded;
         });
}

// The cards where the least is missing, of those that could carry it once all leases
// were gone.
void Ledger::Impl::choose_targets(Entry& entry, const SchedulingPass& pass) {
  const auto& request = entry.lease.request;
  const auto min_bytes = min_bytes_per_gpu(request);
  entry.targets.clear();
  if (const auto left = quota_left(entry); left && *left < min_bytes) return;
  std::vector<std::pair<std::int64_t, CardIndex>> found;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    auto& state = cards[i];
    if (!state.is_seen || !state.card.usable || state.card.excluded) continue;
    const auto max_bytes = less(less(state.card.total, load(state).unmanaged), pass.reserved[i]);
    if (!may_use(request, state.card) || max_bytes < min_bytes) continue;
    found.emplace_back(
        static_cast<std::int64_t>(pass.kept[i] + pass.claimed[i] + pass.reserved[i]) -
            static_cast<std::int64_t>(pass.free[i] + state.draining),
        i);
  }
  if (found.size() < request.gpus) return;
  std::ranges::sort(found);
  for (unsigned i = 0; i < request.gpus; ++i) entry.targets.push_back(found[i].second);
}

std::vector<Entry*> Ledger::Impl::in_order(Instant t) const {
  std::vector<Place> places;
  places.reserve(queue.size());
  for (const auto& [key, entry] : queue)
    places.push_back({key.step, share_of(*entry->agent, t), key.requested_at, key.id, entry});
  std::ranges::sort(places, std::less<>());
  std::vector<Entry*> order;
  order.reserve(places.size());
  for (const auto& place : places) order.push_back(place.entry);
  return order;
}

void Ledger::Impl::hold_capacity(Entry& entry, SchedulingPass& pass, Changes& changes) {
  if (now >= later(entry.lease.requested_at, policy.hold_after)) entry.is_holding = true;
  entry.is_kept_from_all = may_hold_capacity(entry) && !is_behind_its_own(entry);
  const bool is_asking = !entry.claimed.empty();
  if ((is_asking && !entry.is_kept_from_all) ||
      ((entry.is_holding || is_asking) && !are_good_targets(entry))) {
    release_claims(entry, pass);
    withdraw_asks(entry, changes);
    choose_targets(entry, pass);
    entry.is_kept_from_all = entry.is_kept_from_all && !is_behind_its_own(entry);
  }
  ask_to_yield(entry, pass, changes);
  if (entry.is_holding) make_keeper(entry);
  const bool is_kept = entry.is_holding ? !entry.targets.empty() : !entry.claimed.empty();
  if (is_kept && entry.is_kept_from_all) note_kept(entry);
  keep_for(entry, pass);
}

void Ledger::Impl::serve(Changes& changes) {
  must_serve = is_paused;
  if (is_paused) return;
  forget_hold_budgets();
  auto pass = begin_pass();
  for (auto* entry : in_order(now))
    if (!try_grant(*entry, pass, changes)) hold_capacity(*entry, pass, changes);
  report_capacity(pass, changes);
  must_serve = false;
}

void Ledger::Impl::serve_if_needed(Changes& changes) {
  if (must_serve) serve(changes);
}

// Each lease is notified once until the capacity was gone again; the same bytes are not offered
// to two leases at once.
void Ledger::Impl::report_capacity(SchedulingPass& pass, Changes& changes) {
  for (auto& [key, entry] : on_cpu) {
    Choice choice;
    if (may_fit(*entry, pass)) choice = choose_for(*entry, candidates_for(*entry, pass, false));
    const bool is_news = !choice.candidates.empty() && !entry->capacity_reported;
    entry->capacity_reported = !choice.candidates.empty();
    if (!is_news) continue;
    for (const auto i : choice.candidates) pass.free[i] -= choice.bytes;
    pass.most_free = *std::ranges::max_element(pass.free);
    changes.push_back({Change::What::capacity, entry->lease.id,
                       choice.bytes * choice.candidates.size(),
                       cards[choice.candidates.front()].card.uuid,
                       "there is capacity for it on a GPU now; ask again"});
  }
}

}  // namespace sluice::broker
