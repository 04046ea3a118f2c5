// What is set from outside rather than asked for: settings, and the leases of the store.
#include <algorithm>

#include "broker/ledger_state.h"

namespace sluice::broker {

void Ledger::Impl::set_limits(Agent& agent) const {
  const auto quota = policy.quotas.find(agent.name);
  agent.quota = quota == policy.quotas.end() ? std::nullopt : std::optional(quota->second);
  agent.is_reserved_for = policy.reservations.contains(agent.name);
}

// Each reservation has a home: the card it fills best, or pieces of several.
void Ledger::Impl::plan_reservations() {
  plan_again = false;
  reserved.clear();
  Amounts left(cards.size(), 0);
  for (std::size_t i = 0; i < cards.size(); ++i)
    if (cards[i].card.usable && !cards[i].card.excluded) left[i] = cards[i].card.total;
  for (const auto& [agent, bytes] : policy.reservations) {
    auto& plan = reserved.emplace_back(Reserved{&agent_named(agent), bytes, {}});
    auto home = left.end();
    for (auto at = left.begin(); at != left.end(); ++at)
      if (*at >= bytes && (home == left.end() || *at < *home)) home = at;
    for (auto missing = bytes; missing > 0 && !left.empty();) {
      if (home == left.end() || *home == 0) home = std::ranges::max_element(left);
      const auto piece = std::min(missing, *home);
      if (piece == 0) break;  // more is reserved than there is
      plan.homes.emplace_back(static_cast<CardIndex>(home - left.begin()), piece);
      *home -= piece, missing -= piece;
    }
  }
}

// What is kept on each card for agents other than `except` and not yet held by them.
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
  for (auto& [name, agent] : impl_->agents) impl_->set_limits(agent);
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
    for (const auto& part : entry.lease.parts) to.seat(entry, to.card_named(part.uuid), part.bytes);
    if (is_held(entry.lease)) {
      to.accrue(*entry.agent, entry.lease.granted_at);
      for (const auto& part : entry.lease.parts) entry.agent->held += part.bytes;
    }
    to.watch_deadline(entry);
  }
  for (auto& [id, entry] : to.entries) to.join_yield(entry);
}

}  // namespace sluice::broker
