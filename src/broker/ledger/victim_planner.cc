#include "broker/ledger/victim_planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice::broker {

namespace {

constexpr std::size_t kMaxExamined = 256, kMaxVictims = 64;  // on a card, of one priority

// Lower is cheaper: the highest priority among them, how many, how much.
using Cost = std::tuple<int, std::size_t, std::uint64_t>;
Cost cost_of(const std::vector<Entry*>& victims) {
  Cost cost{-1, victims.size(), 0};
  for (const auto* victim : victims) {
    std::get<0>(cost) =
        std::max(std::get<0>(cost), static_cast<int>(victim->lease.request.priority));
    for (const auto& part : victim->lease.parts) std::get<2>(cost) += part.bytes;
  }
  return cost;
}

// Removes victims that are not needed for `missing` bytes, the most expensive first.
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

struct VictimPlanner::Search {
  const Entry& entry;
  const SchedulingPass& pass;
  bool to_ask;
};

bool VictimPlanner::may_go(const Victim& victim, const Search& search) const {
  const auto& held = *victim.entry;
  if (held.lease.state != State::held || held.planned_in == plans_ ||
      search.entry.declined.contains(victim.id))
    return false;
  return !search.to_ask || policy_.preempt_other_users ||
         may_preempt(search.entry.lease.request, held.lease.request);
}

// The largest leases of each priority: small ones help little, and a scan of thousands would block
// the ledger. Stops when there are enough.
std::vector<Victim> VictimPlanner::candidates(const CardState& state, std::uint64_t missing,
                                              const Search& search) const {
  std::vector<Victim> found;
  std::uint64_t sum = 0;
  for (auto at = state.victims.begin(); at != state.victims.end() && sum < missing;) {
    const auto priority = at->priority;
    if (search.to_ask && priority >= search.entry.lease.request.priority) break;
    std::size_t looked = 0, taken = 0;
    for (; at != state.victims.end() && at->priority == priority && sum < missing &&
           looked < kMaxExamined && taken < kMaxVictims;
         ++at, ++looked) {
      if (!may_go(*at, search)) continue;
      found.push_back(*at);
      sum += at->bytes;
      ++taken;
    }
    if (sum < missing) at = state.victims.upper_bound({priority, 0, 0});
  }
  if (sum < missing) found.clear();
  return found;
}

// Adds to `chosen` the cheapest leases on the card that free `missing` bytes. Of the
// lowest priority and largest first, so that few have to go; the last one is then the
// smallest that will do.
bool VictimPlanner::cover(const CardState& state, std::uint64_t missing, const Search& search,
                          std::vector<Entry*>& chosen) const {
  auto taken = candidates(state, missing, search);
  if (taken.empty()) return false;
  std::uint64_t before = 0;
  for (const auto& victim : taken) before += victim.bytes;
  const auto rest = missing - (before - taken.back().bytes);
  // In front of the first that is too small stand those that will do.
  auto at = state.victims.upper_bound({taken.back().priority, rest, 0});
  for (std::size_t looked = 0; at != state.victims.begin() && looked < kMaxExamined; ++looked) {
    --at;
    if (!(taken.back() < *at)) break;
    if (!may_go(*at, search) || at->bytes < rest) continue;
    taken.back() = *at;
    break;
  }
  prune(taken, missing);
  for (const auto& victim : taken) chosen.push_back(victim.entry);
  return true;
}

// Bytes missing on the card for the request once `chosen` have ended.
std::uint64_t VictimPlanner::missing_on(CardIndex card, const Search& search,
                                        const std::vector<Entry*>& chosen) const {
  auto have = search.pass.coming_for(search.entry, card);
  for (const auto* victim : chosen) have += bytes_on(*victim, card);
  const auto over = less(cards_.load(card).taken, cards_[card].card.total);
  return less(min_bytes_per_gpu(search.entry.lease.request) + over, have);
}

// The card where it costs least, and who has to go there; `could_do` is how many would do.
std::optional<CardIndex> VictimPlanner::cheapest_card(const Search& search, VictimPlan& plan,
                                                      std::size_t& could_do) {
  std::optional<CardIndex> best;
  std::vector<Entry*> victims;
  Cost best_cost{};
  could_do = 0;
  for (CardIndex i = 0; i < cards_.size(); ++i) {
    const auto& state = cards_[i];
    if (!state.is_seen || !may_use(search.entry.lease.request, state.card) ||
        !is_open(state.card, search.pass.now(), policy_.stale) ||
        std::ranges::find(plan.cards, i) != plan.cards.end())
      continue;
    auto chosen = plan.victims;
    const auto missing = missing_on(i, search, chosen);
    if (missing > 0 && !cover(state, missing, search, chosen)) continue;
    ++could_do;
    const auto cost = cost_of(chosen);
    const bool is_better =
        !best || cost < best_cost || (cost == best_cost && state.card.bus < cards_[*best].card.bus);
    if (is_better) best = i, best_cost = cost, victims = std::move(chosen);
  }
  if (best) plan.victims = std::move(victims);
  return best;
}

VictimPlan VictimPlanner::plan(const Entry& entry, const SchedulingPass& pass, Of of) {
  const Search search{entry, pass, of == Of::to_ask};
  VictimPlan plan;
  const auto gpus = entry.lease.request.gpus;
  ++plans_;
  while (plan.cards.size() < gpus) {
    std::size_t could_do = 0;
    const auto best = cheapest_card(search, plan, could_do);
    if (!best || plan.cards.size() + could_do < gpus) return {};
    plan.cards.push_back(*best);
    for (auto* victim : plan.victims) victim->planned_in = plans_;
  }
  plan.is_feasible = true;
  return plan;
}

}  // namespace sluice::broker
