// Who would have to go, and asking them to.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/units.h"
#include "broker/ledger_state.h"

namespace sluice::broker {

namespace {

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

bool has(const std::vector<LeaseId>& ids, LeaseId id) {
  return std::ranges::find(ids, id) != ids.end();
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

// Adds to `chosen` the cheapest leases on the card that free `missing` bytes. Of the
// lowest priority and largest first, so that few have to go; the last one is then the
// smallest that will do. With `to_ask`, those of lower priority that may be asked to yield.
bool Ledger::Impl::cover(const Entry& entry, const CardState& state, std::uint64_t missing,
                         bool to_ask, std::vector<Entry*>& chosen) {
  const auto may_go = [&](const Victim& v) {
    const auto& victim = entries.at(v.id).lease;
    return !has(entry.declined, v.id) && victim.state == State::held &&
           (!to_ask || may_ask(entry.lease.wanted, victim.wanted)) &&
           std::ranges::none_of(chosen, [&](const Entry* e) { return e->lease.id == v.id; });
  };
  std::vector<Victim> taken;
  std::uint64_t sum = 0;
  for (const auto& victim : state.victims) {
    if (to_ask && victim.priority >= entry.lease.wanted.priority) break;
    if (!may_go(victim)) continue;
    taken.push_back(victim);
    sum += victim.bytes;
    if (sum >= missing) break;
  }
  if (sum < missing) return false;
  const auto rest = missing - (sum - taken.back().bytes);
  // In front of the first that is too small stand those that will do.
  auto at = state.victims.upper_bound({taken.back().priority, rest, 0});
  while (at != state.victims.begin()) {
    --at;
    if (!(taken.back() < *at)) break;
    if (!may_go(*at) || at->bytes < rest) continue;
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

VictimPlan Ledger::Impl::plan_victims(const Entry& entry, const Turn& turn, bool to_ask) {
  VictimPlan plan;
  const auto& wanted = entry.lease.wanted;
  while (plan.cards.size() < wanted.gpus) {
    std::optional<CardIndex> best;
    std::vector<Entry*> victims;
    for (CardIndex i = 0; i < cards.size(); ++i) {
      const auto& card = cards[i].card;
      if (!cards[i].is_seen || !may_use(wanted, card) || !is_open(card, now, policy.stale))
        continue;
      if (std::ranges::find(plan.cards, i) != plan.cards.end()) continue;
      auto chosen = plan.victims;
      const auto missing = missing_on(entry, i, turn, chosen);
      if (missing > 0 && !cover(entry, cards[i], missing, to_ask, chosen)) continue;
      const bool is_better =
          !best || cost_of(chosen) < cost_of(victims) ||
          (cost_of(chosen) == cost_of(victims) && card.bus < cards[*best].card.bus);
      if (is_better) best = i, victims = std::move(chosen);
    }
    if (!best) return {};
    plan.cards.push_back(*best);
    plan.victims = std::move(victims);
  }
  plan.is_feasible = true;
  return plan;
}

void Ledger::Impl::ask_to_yield(Entry& entry, Turn& turn, Changes& changes) {
  auto& lease = entry.lease;
  if (lease.wanted.priority == Priority::low || !entry.asked.empty() || now < entry.asks_again_at)
    return;
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
    turn.claimed[plan.cards[i]] += entry.claimed[i];
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
    const auto whose = fmt::format("{}; {} ({}) asked", reason, asker.agent, asker.peer);
    end(entry, Ending::revoked, reason, changes);
    changes.push_back({Change::What::preempted, lease.id, 0, {}, whose});
    if (policy.escalate == Policy::Escalate::terminate && lease.wanted.holder.pid != 0)
      changes.push_back({Change::What::terminate, lease.id, 0, {}, whose});
    return;
  }
  if (at != entries.end()) {
    drop(at->second.asked, lease.id);
    at->second.declined.push_back(lease.id);
  }
  stop_yielding(entry);
  changes.push_back({Change::What::yield_overdue, lease.id, 0, {}, reason});
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
