#include "broker/ledger/reservations.h"

#include <algorithm>

namespace sluice::broker {

// Bytes of each card that `agent` could hold now: total without unmanaged processes and leases of
// others.
Amounts Reservations::carry_for(const Agent& agent) {
  Amounts amounts(cards_.size(), 0);
  for (CardIndex i = 0; i < cards_.size(); ++i) {
    const auto& state = cards_[i];
    if (!state.may_carry()) continue;
    std::uint64_t own = 0;
    for (std::size_t k = 0; k < state.owners.size(); ++k)
      if (state.owners[k]->agent == &agent) own += state.promises[k].bytes;
    amounts[i] = less(state.card.total, less(cards_.load(i).taken, own));
  }
  return amounts;
}

// Each reservation has a home: the card that it had, while that can carry it; else the one
// that it fills best, or pieces of several.
void Reservations::plan(Instant now) {
  const auto old = std::exchange(reserved_, {});
  Amounts kept(cards_.size(), 0);
  for (const auto& [agent, bytes] : policy_.reservations) {
    auto& plan = reserved_.emplace_back(Reserved{&accounts_.agent_named(agent, now), bytes, {}});
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

Amounts Reservations::reserved_for(const Agent* except) const {
  Amounts sums(cards_.size(), 0);
  for (const auto& plan : reserved_) {
    if (plan.agent == except) continue;
    auto open = less(plan.bytes, plan.agent->held);
    for (const auto& [home, bytes] : plan.homes) {
      const auto piece = std::min(open, bytes);
      sums[home] += piece;
      open -= piece;
    }
  }
  return sums;
}

}  // namespace sluice::broker
