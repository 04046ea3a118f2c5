// Who would have to go, and asking them to.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/units.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kMostLookedAt = 256, kMostToGo = 64;  // on a card, of one priority
constexpr std::size_t kPlansInATurn = 16;

std::uint64_t bytes_on(const Entry& entry, CardIndex card) {
  for (std::size_t i = 0; i < entry.seats.size(); ++i)
    if (entry.seats[i].card == card) return entry.lease.parts[i].bytes;
  return 0;
}

// Lower is cheaper: the highest priority among them, how many, how much.
using Cost = std::tuple<int, std::size_t, std::uint64_t>;
Cost cost_of(const std::vector<Entry*>& victims) {
  Cost cost{-1, victims.size(), 0};
  for (const auto* victim : victims) {
    std::get<0>(cost) =
        std::max(std::get<0>(cost), static_cast<int>(victim->lease.wanted.priority));
    for (const auto& part : victim->lease.parts) std::get<2>(cost) += part.bytes;
  }
  return cost;
}

std::string asks_for(const Wanted& asker) {
  return fmt::format("{} asks for {} with {} priority", asker.agent,
                     human_bytes(least_bytes(asker)), to_string(asker.priority));
}

// Takes out whoever is not needed for `missing` bytes, the dearest first.
void prune(std::vector<Victim>& taken, std::uint64_t missing) {
  std::uint64_t sum = 0;
  for (const auto& victim : taken) sum += victim.bytes;
  for (auto i = taken.size(); i-- > 0;)
    if (sum - taken[i].bytes >= missing) {
      sum -= taken[i].bytes;
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace

bool Ledger::Impl::may_ask(const Wanted& asker, const Wanted& holder) const {
  return policy.preempt_other_users || may_preempt(asker, holder);
}

// Of each priority the largest: what is small helps little, and looking at thousands would hold
// everybody up. Stops when there are enough.
std::vector<Victim> Ledger::Impl::candidates(const CardState& state, const Entry& entry,
                                             std::uint64_t missing, bool to_ask) {
  std::vector<Victim> found;
  std::uint64_t sum = 0;
  for (auto at = state.victims.begin(); at != state.victims.end() && sum < missing;) {
    const auto priority = at->priority;
    if (to_ask && priority >= entry.lease.wanted.priority) break;
    std::size_t looked = 0, taken = 0;
    for (; at != state.victims.end() && at->priority == priority && sum < missing &&
           looked < kMostLookedAt && taken < kMostToGo;
         ++at, ++looked) {
      if (!may_go(*at, entry, to_ask)) continue;
      found.push_back(*at);
      sum += at->bytes;
      ++taken;
    }
    if (sum < missing) at = state.victims.upper_bound({priority, 0, 0});
  }
  if (sum < missing) found.clear();
  return found;
}

bool Ledger::Impl::may_go(const Victim& victim, const Entry& entry, bool to_ask) const {
  const auto& held = entries.at(victim.id);
  return held.lease.state == State::held && held.planned_in != plans &&
         !entry.declined.contains(victim.id) &&
         (!to_ask || may_ask(entry.lease.wanted, held.lease.wanted));
}

// Adds to `chosen` the cheapest leases on the card that free `missing` bytes. Of the
// lowest priority and largest first, so that few have to go; the last one is then the
// smallest that will do. With `to_ask`, those of lower priority that may be asked to yield.
bool Ledger::Impl::cover(const Entry& entry, const CardState& state, std::uint64_t missing,
                         bool to_ask, std::vector<Entry*>& chosen) {
  auto taken = candidates(state, entry, missing, to_ask);
  if (taken.empty()) return false;
  std::uint64_t before = 0;
  for (const auto& victim : taken) before += victim.bytes;
  const auto rest = missing - (before - taken.back().bytes);
  // In front of the first that is too small stand those that will do.
  auto at = state.victims.upper_bound({taken.back().priority, rest, 0});
  for (std::size_t looked = 0; at != state.victims.begin() && looked < kMostLookedAt; ++looked) {
    --at;
    if (!(taken.back() < *at)) break;
    if (!may_go(*at, entry, to_ask) || at->bytes < rest) continue;
    taken.back() = *at;
    break;
  }
  prune(taken, missing);
  for (const auto& victim : taken) chosen.push_back(&entries.at(victim.id));
  return true;
}

// What `entry` may count on there once all that was given back has drained.
std::uint64_t Ledger::Impl::have_on(const Entry& entry, CardIndex card, const Turn& turn) const {
  const auto coming = turn.free[card] + cards[card].draining, kept = kept_on(card, entry, turn);
  return coming > kept ? coming - kept : 0;
}

// What is missing on the card for `entry` when `chosen` is gone.
std::uint64_t Ledger::Impl::missing_on(const Entry& entry, CardIndex card, const Turn& turn,
                                       const std::vector<Entry*>& chosen) {
  auto& state = cards[card];
  auto have = have_on(entry, card, turn);
  for (const auto* victim : chosen) have += bytes_on(*victim, card);
  auto need = least_bytes(entry.lease.wanted);
  if (load(state).taken > state.card.total) need += state.load.taken - state.card.total;
  return need > have ? need - have : 0;
}

// The card where it costs least, and who has to go there; `could_do` is how many would do.
std::optional<CardIndex> Ledger::Impl::cheapest_card(const Entry& entry, const Turn& turn,
                                                     bool to_ask, VictimPlan& plan,
                                                     std::size_t& could_do) {
  std::optional<CardIndex> best;
  std::vector<Entry*> victims;
  Cost least{};
  could_do = 0;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    const auto& card = cards[i].card;
    if (!cards[i].is_seen || !may_use(entry.lease.wanted, card) ||
        !is_open(card, now, policy.stale) || std::ranges::find(plan.cards, i) != plan.cards.end())
      continue;
    auto chosen = plan.victims;
    const auto missing = missing_on(entry, i, turn, chosen);
    if (missing > 0 && !cover(entry, cards[i], missing, to_ask, chosen)) continue;
    ++could_do;
    const auto cost = cost_of(chosen);
    if (best && !(cost < least || (cost == least && card.bus < cards[*best].card.bus))) continue;
    best = i, least = cost, victims = std::move(chosen);
  }
  if (best) plan.victims = std::move(victims);
  return best;
}

VictimPlan Ledger::Impl::plan_victims(const Entry& entry, const Turn& turn, bool to_ask) {
  VictimPlan plan;
  const auto gpus = entry.lease.wanted.gpus;
  ++plans;
  while (plan.cards.size() < gpus) {
    std::size_t could_do = 0;
    const auto best = cheapest_card(entry, turn, to_ask, plan, could_do);
    if (!best || plan.cards.size() + could_do < gpus) return {};
    plan.cards.push_back(*best);
    for (auto* victim : plan.victims) victim->planned_in = plans;
  }
  plan.is_feasible = true;
  return plan;
}

// Few in a turn, and one of a peer: nobody waits for the plans of one that waits often. Those left
// out have theirs in a later turn.
bool Ledger::Impl::may_plan(const Entry& entry, Turn& turn) {
  const bool had_one = entry.peer != nullptr &&
                       std::ranges::find(turn.planned_for, entry.peer) != turn.planned_for.end();
  if (had_one || turn.planned_for.size() >= kPlansInATurn) return false;
  turn.planned_for.push_back(entry.peer);
  return true;
}

void Ledger::Impl::ask_to_yield(Entry& entry, Turn& turn, Changes& changes) {
  auto& lease = entry.lease;
  if (lease.wanted.priority == Priority::low || !entry.asked.empty() || now < entry.asks_again_at)
    return;
  if (!may_keep_room(entry) || !may_plan(entry, turn)) return;
  entry.asks_again_at = later(now, policy.yield_within);
  const auto left = quota_left(entry);
  if (left && *left < least_bytes(lease.wanted)) return;
  const auto plan = plan_victims(entry, turn, true);
  if (!plan.is_feasible || plan.victims.empty()) return;
  release_claims(entry, turn);
  entry.targets = plan.cards;
  entry.claimed.clear();
  Amounts claimed;
  const auto least = least_bytes(lease.wanted);
  for (const auto card : plan.cards) {
    auto rest = least;  // beyond what the others give back
    for (const auto* victim : plan.victims) rest -= std::min(rest, bytes_on(*victim, card));
    claimed.push_back(std::min(rest, have_on(entry, card, turn)));
  }
  entry.claimed = std::move(claimed);
  for (std::size_t i = 0; i < plan.cards.size(); ++i)
    keep(turn, &Turn::claimed, entry, plan.cards[i], static_cast<std::int64_t>(entry.claimed[i]));
  make_keeper(entry);
  for (auto* victim : plan.victims) {
    auto& asked = victim->lease;
    asked.state = State::yielding;
    asked.yield_asked_at = now;
    asked.yield_by = later(now, policy.yield_within);
    asked.yields_to = lease.id;
    asked.yield_reason = asks_for(lease.wanted);
    entry.asked.push_back(asked.id);
    watch_deadline(*victim);
    changes.push_back({Change::What::yield_asked,
                       asked.id,
                       0,
                       {},
                       fmt::format("{}; give this lease back within {}", asked.yield_reason,
                                   human_duration(policy.yield_within.count()))});
  }
}

// What it gives back is for the one that asked.
void Ledger::Impl::yielded(Entry& yielder) {
  const auto at = entries.find(yielder.lease.yields_to);
  if (at == entries.end()) return;
  auto& asker = at->second;
  drop(asker.asked, yielder.lease.id);
  const auto least = least_bytes(asker.lease.wanted);
  for (std::size_t i = 0; i < asker.claimed.size(); ++i)
    asker.claimed[i] = std::min(least, asker.claimed[i] + bytes_on(yielder, asker.targets[i]));
}

// After a restart: finds its asker again, or is held as before where that one is gone.
void Ledger::Impl::join_yield(Entry& yielder) {
  auto& lease = yielder.lease;
  if (lease.yields_to == 0) return;
  const auto at = entries.find(lease.yields_to);
  if (at == entries.end() || at->second.lease.state != State::waiting) {
    if (lease.state == State::yielding) lease.state = State::held;
    lease.yields_to = 0;
    return;
  }
  auto& asker = at->second;
  for (const auto& seat : yielder.seats)
    if (std::ranges::find(asker.targets, seat.card) == asker.targets.end() &&
        asker.targets.size() < asker.lease.wanted.gpus)
      asker.targets.push_back(seat.card), asker.claimed.push_back(0);
  make_keeper(asker);
  if (lease.state == State::yielding) {
    asker.asked.push_back(lease.id);
    lease.yield_reason = asks_for(asker.lease.wanted);
  }
  if (lease.state == State::draining) yielded(yielder);
}

void Ledger::Impl::stop_yielding(Entry& yielder) {
  yielder.lease.state = State::held;
  yielder.lease.yields_to = 0;
  yielder.lease.yield_by = yielder.lease.yield_asked_at = {};
  yielder.lease.yield_reason.clear();
}

void Ledger::Impl::withdraw_asks(Entry& entry, Changes& changes) {
  for (const auto id : std::exchange(entry.asked, {})) {
    auto& yielder = entries.at(id);
    stop_yielding(yielder);
    changes.push_back({Change::What::yield_withdrawn, id, 0, {}, "the memory is not needed now"});
  }
  entry.claimed.clear();
  entry.targets.clear();
}

void Ledger::Impl::yield_is_overdue(Entry& entry, Changes& changes) {
  auto& lease = entry.lease;
  const auto reason = fmt::format("it did not yield within {} when asked to",
                                  human_duration(policy.yield_within.count()));
  const auto at = entries.find(lease.yields_to);
  const bool may_take = at != entries.end() && may_preempt(at->second.lease.wanted, lease.wanted);
  if (policy.escalate != Policy::Escalate::report && may_take) {
    const auto& asker = at->second.lease.wanted;
    const bool own = is_same_user(asker, lease.wanted);
    const auto whose = fmt::format("{}; {} ({}) asked", reason, asker.agent, asker.peer);
    end(entry, Ending::revoked, reason, changes);
    changes.push_back({Change::What::preempted, lease.id, 0, {}, whose, own});
    if (policy.escalate == Policy::Escalate::terminate && lease.wanted.holder.pid != 0)
      changes.push_back({Change::What::terminate, lease.id, 0, {}, whose, own});
    return;
  }
  if (at != entries.end()) {
    drop(at->second.asked, lease.id);
    at->second.declined.insert(lease.id);
  }
  stop_yielding(entry);
  changes.push_back({Change::What::yield_overdue, lease.id, 0, {}, reason});
}

// Without a look at who is in the way.
std::string Ledger::Impl::reason_for(const Entry& entry, const Turn& turn) {
  const auto left = quota_left(entry);
  if (left && *left < least_bytes(entry.lease.wanted)) return quota_text(entry);
  return explain(entry.lease.wanted, sites_for(entry, turn, true), {});
}

Refusal Ledger::Impl::refusal_for(const Entry& entry, const Turn& turn) {
  const auto& wanted = entry.lease.wanted;
  if (const auto left = quota_left(entry); left && *left < least_bytes(wanted))
    return over_quota(entry);
  const auto sites = sites_for(entry, turn, true);
  Refusal refusal{explain(wanted, sites, {}), obstacles(wanted, sites), {}, {}};
  const auto plan = plan_victims(entry, turn, false);
  if (!plan.is_feasible) return refusal;
  Seconds longest{0};
  for (const auto* victim : plan.victims) {
    refusal.in_the_way.push_back(victim->lease.id);
    longest = std::max(longest, Seconds(victim->lease.expires_at - now));
  }
  refusal.may_fit_in = longest;
  return refusal;
}

Refusal Ledger::refusal(const Wanted& wanted) const {
  if (auto never = impl_->why_never(wanted); !never.empty()) return {std::move(never), {}, {}, {}};
  Entry entry;
  entry.lease.wanted = wanted;
  entry.lease.asked_at = impl_->now;
  entry.agent = &impl_->agent_named(wanted.agent);
  entry.peer = impl_->peer_named(wanted.peer);
  impl_->set_step(entry);
  auto turn = impl_->new_turn();
  impl_->keep_for_those_ahead(entry, turn);
  return impl_->refusal_for(entry, turn);
}

std::optional<Refusal> Ledger::refusal(LeaseId id) const {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;
  const auto& entry = at->second;
  if (entry.lease.state != State::waiting && entry.lease.state != State::on_cpu)
    return std::nullopt;
  if (auto never = impl_->why_never(entry.lease.wanted); !never.empty())
    return Refusal{std::move(never), {}, {}, {}};
  auto turn = impl_->new_turn();
  impl_->keep_for_those_ahead(entry, turn);
  return impl_->refusal_for(entry, turn);
}

}  // namespace sluice::broker
