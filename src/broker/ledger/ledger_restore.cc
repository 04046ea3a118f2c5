// Applies settings and restores the leases of the store.
#include <algorithm>

#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

void Ledger::Impl::set_limits(Agent& agent) const {
  const auto quota = policy.quotas.find(agent.name);
  agent.quota = quota == policy.quotas.end() ? std::nullopt : std::optional(quota->second);
  agent.is_reserved_for = policy.reservations.contains(agent.name);
}

// Bytes of each card that `agent` could hold now: total without unmanaged processes and leases of
// others.
Amounts Ledger::Impl::carry_for(const Agent& agent) {
  Amounts amounts(cards.size(), 0);
  for (std::size_t i = 0; i < cards.size(); ++i) {
    auto& state = cards[i];
    if (!state.is_seen || !state.card.usable || state.card.excluded) continue;
    std::uint64_t own = 0;
    for (std::size_t k = 0; k < state.owners.size(); ++k)
      if (state.owners[k]->agent == &agent) own += state.promises[k].bytes;
    const auto others = load(state).taken - std::min(load(state).taken, own);
    amounts[i] = state.card.total - std::min(state.card.total, others);
  }
  return amounts;
}

// Each reservation has a home: the card that it had, while that can carry it; else the one
// that it fills best, or pieces of several.
void Ledger::Impl::plan_reservations() {
  plan_again = false;
  const auto old = std::exchange(reserved, {});
  Amounts kept(cards.size(), 0);
  for (const auto& [agent, bytes] : policy.reservations) {
    auto& plan = reserved.emplace_back(Reserved{&agent_named(agent), bytes, {}});
    auto left = carry_for(*plan.agent);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] -= std::min(left[i], kept[i]);
    const auto had = std::ranges::find(old, plan.agent, &Reserved::agent);
    auto home = left.end();
    for (auto at = left.begin(); at != left.end(); ++at)
      if (*at >= bytes && (home == left.end() || *at < *home)) home = at;
    if (had != old.end() && had->homes.size() == 1 && left[had->homes[0].first] >= bytes)
      home = left.begin() + had->homes[0].first;
    for (auto missing = bytes; missing > 0 && !left.empty();) {
      if (home == left.end() || *home == 0) home = std::ranges::max_element(left);
      const auto piece = std::min(missing, *home);
      if (piece == 0) break;  // more is reserved than can be had now
      const auto card = static_cast<CardIndex>(home - left.begin());
      plan.homes.emplace_back(card, piece);
      *home -= piece, kept[card] += piece, missing -= piece;
    }
  }
}

// Bytes reserved on each card for agents other than `except` and not yet held by them.
Amounts Ledger::Impl::reserved_for(const Agent* except) const {
  Amounts sums(cards.size(), 0);
  for (const auto& plan : reserved) {
    if (plan.agent == except) continue;
    auto open = plan.bytes > plan.agent->held ? plan.bytes - plan.agent->held : 0;
    for (const auto& [home, bytes] : plan.homes) {
      const auto piece = std::min(open, bytes);
      sums[home] += piece;
      open -= piece;
    }
  }
  return sums;
}

void Ledger::set_policy(Policy policy) {
  impl_->policy = std::move(policy);
  impl_->policy_at = std::max(impl_->policy_at, impl_->now);
  for (auto& [name, agent] : impl_->agents) impl_->set_limits(agent), agent.held_by.clear();
  for (const auto& [id, entry] : impl_->entries)
    if (entry.agent->quota && is_held(entry.lease))
      entry.agent->held_by[entry.lease.request.peer] += promised(entry.lease);
  impl_->plan_reservations();
  impl_->restep();
  impl_->must_serve = true;
}

void Ledger::restore(std::vector<Lease> leases, LeaseId last_id) {
  auto& to = *impl_;
  to.last_id = last_id;
  std::erase_if(leases, [](const Lease& lease) { return lease.state == State::ended; });
  std::ranges::sort(leases, {}, &Lease::granted_at);  // for the agents' shares
  for (auto& lease : leases) {
    to.last_id = std::max(to.last_id, lease.id);
    to.policy_at = std::max(to.policy_at, lease.granted_at);  // the settings may be new
    auto& entry = to.enter(std::move(lease));
    if (entry.agent->leases == 1) entry.agent->share_at = entry.lease.granted_at;
    if (entry.lease.state == State::waiting || entry.lease.state == State::on_cpu)
      to.enqueue(entry);
    for (const auto& part : entry.lease.parts)
      to.add_promise(entry, to.card_named(part.uuid), part.bytes);
    if (is_held(entry.lease)) {
      to.accrue(*entry.agent, entry.lease.granted_at);
      for (std::size_t i = 0; i < entry.part_states.size(); ++i)
        to.count_bytes(entry, entry.part_states[i].card, entry.lease.parts[i].bytes, true);
    }
    to.watch_deadline(entry);
  }
  for (auto& [id, entry] : to.entries) to.join_yield(entry);
}

}  // namespace sluice::broker
