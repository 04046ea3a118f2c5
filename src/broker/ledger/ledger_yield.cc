// Chooses the leases that would have to end for a request, and asks their holders to yield.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/units.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kMaxExamined = 256, kMaxVictims = 64;  // on a card, of one priority
constexpr std::size_t kMaxPlansPerPass = 16;

std::uint64_t bytes_on(const Entry& entry, CardIndex card) {
  for (std::size_t i = 0; i < entry.part_states.size(); ++i)
    if (entry.part_states[i].card == card) return entry.lease.parts[i].bytes;
  return 0;
}

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

std::string describe_request(const LeaseRequest& requester) {
  return fmt::format("{} asks for {} with {} priority", requester.agent,
                     human_bytes(min_bytes_per_gpu(requester)), to_string(requester.priority));
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

bool Ledger::Impl::may_ask(const LeaseRequest& requester, const LeaseRequest& holder) const {
  return policy.preempt_other_users || may_preempt(requester, holder);
}

// The largest leases of each priority: small ones help little, and a scan of thousands would block
// the ledger. Stops when there are enough.
std::vector<Victim> Ledger::Impl::victim_candidates(const CardState& state, const Entry& entry,
                                                    std::uint64_t missing, bool to_ask) {
  std::vector<Victim> found;
  std::uint64_t sum = 0;
  for (auto at = state.victims.begin(); at != state.victims.end() && sum < missing;) {
    const auto priority = at->priority;
    if (to_ask && priority >= entry.lease.request.priority) break;
    std::size_t looked = 0, taken = 0;
    for (; at != state.victims.end() && at->priority == priority && sum < missing &&
           looked < kMaxExamined && taken < kMaxVictims;
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
         (!to_ask || may_ask(entry.lease.request, held.lease.request));
}

// Adds to `chosen` the cheapest leases on the card that free `missing` bytes. Of the
// lowest priority and largest first, so that few have to go; the last one is then the
// smallest that will do. With `to_ask`, those of lower priority that may be asked to yield.
bool Ledger::Impl::cover(const Entry& entry, const CardState& state, std::uint64_t missing,
                         bool to_ask, std::vector<Entry*>& chosen) {
  auto taken = victim_candidates(state, entry, missing, to_ask);
  if (taken.empty()) return false;
  std::uint64_t before = 0;
  for (const auto& victim : taken) before += victim.bytes;
  const auto rest = missing - (before - taken.back().bytes);
  // In front of the first that is too small stand those that will do.
  auto at = state.victims.upper_bound({taken.back().priority, rest, 0});
  for (std::size_t looked = 0; at != state.victims.begin() && looked < kMaxExamined; ++looked) {
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

// Bytes available to `entry` on the card once everything given back has drained.
std::uint64_t Ledger::Impl::have_on(const Entry& entry, CardIndex card,
                                    const SchedulingPass& pass) const {
  const auto coming = pass.free[card] + cards[card].draining, kept = kept_on(card, entry, pass);
  return coming > kept ? coming - kept : 0;
}

// Bytes missing on the card for `entry` once `chosen` have ended.
std::uint64_t Ledger::Impl::missing_on(const Entry& entry, CardIndex card,
                                       const SchedulingPass& pass,
                                       const std::vector<Entry*>& chosen) {
  auto& state = cards[card];
  auto have = have_on(entry, card, pass);
  for (const auto* victim : chosen) have += bytes_on(*victim, card);
  auto need = min_bytes_per_gpu(entry.lease.request);
  if (load(state).taken > state.card.total) need += state.load.taken - state.card.total;
  return need > have ? need - have : 0;
}

// The card where it costs least, and who has to go there; `could_do` is how many would do.
std::optional<CardIndex> Ledger::Impl::cheapest_card(const Entry& entry, const SchedulingPass& pass,
                                                     bool to_ask, VictimPlan& plan,
                                                     std::size_t& could_do) {
  std::optional<CardIndex> best;
  std::vector<Entry*> victims;
  Cost best_cost{};
  could_do = 0;
  for (CardIndex i = 0; i < cards.size(); ++i) {
    const auto& card = cards[i].card;
    if (!cards[i].is_seen || !may_use(entry.lease.request, card) ||
        !is_open(card, now, policy.stale) || std::ranges::find(plan.cards, i) != plan.cards.end())
      continue;
    auto chosen = plan.victims;
    const auto missing = missing_on(entry, i, pass, chosen);
    if (missing > 0 && !cover(entry, cards[i], missing, to_ask, chosen)) continue;
    ++could_do;
    const auto cost = cost_of(chosen);
    if (best && !(cost < best_cost || (cost == best_cost && card.bus < cards[*best].card.bus)))
      continue;
    best = i, best_cost = cost, victims = std::move(chosen);
  }
  if (best) plan.victims = std::move(victims);
  return best;
}

VictimPlan Ledger::Impl::plan_victims(const Entry& entry, const SchedulingPass& pass, bool to_ask) {
  VictimPlan plan;
  const auto gpus = entry.lease.request.gpus;
  ++plans;
  while (plan.cards.size() < gpus) {
    std::size_t could_do = 0;
    const auto best = cheapest_card(entry, pass, to_ask, plan, could_do);
    if (!best || plan.cards.size() + could_do < gpus) return {};
    plan.cards.push_back(*best);
    for (auto* victim : plan.victims) victim->planned_in = plans;
  }
  plan.is_feasible = true;
  return plan;
}

// Limits the plans of a pass, with one for each peer, so that a peer with many waiting requests
// does not delay the others. Requests that are left out are planned in a later pass.
bool Ledger::Impl::may_plan(const Entry& entry, SchedulingPass& pass) {
  const bool had_one = entry.peer != nullptr &&
                       std::ranges::find(pass.planned_for, entry.peer) != pass.planned_for.end();
  if (had_one || pass.planned_for.size() >= kMaxPlansPerPass) return false;
  pass.planned_for.push_back(entry.peer);
  return true;
}

void Ledger::Impl::ask_to_yield(Entry& entry, SchedulingPass& pass, Changes& changes) {
  auto& lease = entry.lease;
  if (lease.request.priority == Priority::low || !entry.pending_yields.empty() ||
      now < entry.next_yield_request_at)
    return;
  if (!may_hold_capacity(entry) || !may_plan(entry, pass)) return;
  entry.next_yield_request_at = later(now, policy.yield_within);
  const auto left = quota_left(entry);
  if (left && *left < min_bytes_per_gpu(lease.request)) return;
  const auto plan = plan_victims(entry, pass, true);
  if (!plan.is_feasible || plan.victims.empty()) return;
  release_claims(entry, pass);
  entry.targets = plan.cards;
  entry.claimed.clear();
  Amounts claimed;
  const auto min_bytes = min_bytes_per_gpu(lease.request);
  for (const auto card : plan.cards) {
    auto rest = min_bytes;  // beyond what the others give back
    for (const auto* victim : plan.victims) rest -= std::min(rest, bytes_on(*victim, card));
    claimed.push_back(std::min(rest, have_on(entry, card, pass)));
  }
  entry.claimed = std::move(claimed);
  for (std::size_t i = 0; i < plan.cards.size(); ++i)
    keep(pass, &SchedulingPass::claimed, entry, plan.cards[i],
         static_cast<std::int64_t>(entry.claimed[i]));
  make_keeper(entry);
  for (auto* victim : plan.victims) {
    auto& yielding = victim->lease;
    yielding.state = State::yielding;
    yielding.yield_requested_at = now;
    yielding.yield_by = later(now, policy.yield_within);
    yielding.yields_to = lease.id;
    yielding.yield_reason = describe_request(lease.request);
    entry.pending_yields.push_back(yielding.id);
    watch_deadline(*victim);
    changes.push_back({Change::What::yield_requested,
                       yielding.id,
                       0,
                       {},
                       fmt::format("{}; give this lease back within {}", yielding.yield_reason,
                                   human_duration(policy.yield_within.count()))});
  }
}

// The memory that it returns is for the request that it yields to.
void Ledger::Impl::yielded(Entry& yielder) {
  const auto at = entries.find(yielder.lease.yields_to);
  if (at == entries.end()) return;
  auto& requester = at->second;
  drop(requester.pending_yields, yielder.lease.id);
  const auto min_bytes = min_bytes_per_gpu(requester.lease.request);
  for (std::size_t i = 0; i < requester.claimed.size(); ++i)
    requester.claimed[i] =
        std::min(min_bytes, requester.claimed[i] + bytes_on(yielder, requester.targets[i]));
}

// After a restart: finds its requester again, or is held as before where that one is gone.
void Ledger::Impl::join_yield(Entry& yielder) {
  auto& lease = yielder.lease;
  if (lease.yields_to == 0) return;
  const auto at = entries.find(lease.yields_to);
  if (at == entries.end() || at->second.lease.state != State::waiting) {
    if (lease.state == State::yielding) lease.state = State::held;
    lease.yields_to = 0;
    return;
  }
  auto& requester = at->second;
  for (const auto& part_state : yielder.part_states)
    if (std::ranges::find(requester.targets, part_state.card) == requester.targets.end() &&
        requester.targets.size() < requester.lease.request.gpus)
      requester.targets.push_back(part_state.card), requester.claimed.push_back(0);
  make_keeper(requester);
  if (lease.state == State::yielding) {
    requester.pending_yields.push_back(lease.id);
    lease.yield_reason = describe_request(requester.lease.request);
  }
  if (lease.state == State::draining) yielded(yielder);
}

void Ledger::Impl::stop_yielding(Entry& yielder) {
  yielder.lease.state = State::held;
  yielder.lease.yields_to = 0;
  yielder.lease.yield_by = yielder.lease.yield_requested_at = {};
  yielder.lease.yield_reason.clear();
}

void Ledger::Impl::withdraw_asks(Entry& entry, Changes& changes) {
  for (const auto id : std::exchange(entry.pending_yields, {})) {
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
  const bool may_take = at != entries.end() && may_preempt(at->second.lease.request, lease.request);
  if (policy.escalate != Policy::Escalate::report && may_take) {
    const auto& requester = at->second.lease.request;
    const bool own = is_same_user(requester, lease.request);
    const auto whose = fmt::format("{}; {} ({}) asked", reason, requester.agent, requester.peer);
    end(entry, EndReason::revoked, reason, changes);
    changes.push_back({Change::What::preempted, lease.id, 0, {}, whose, own});
    if (policy.escalate == Policy::Escalate::terminate && lease.request.holder.pid != 0)
      changes.push_back({Change::What::terminate, lease.id, 0, {}, whose, own});
    return;
  }
  if (at != entries.end()) {
    drop(at->second.pending_yields, lease.id);
    at->second.declined.insert(lease.id);
  }
  stop_yielding(entry);
  changes.push_back({Change::What::yield_overdue, lease.id, 0, {}, reason});
}

// Without a look at who is in the way.
std::string Ledger::Impl::reason_for(const Entry& entry, const SchedulingPass& pass) {
  const auto left = quota_left(entry);
  if (left && *left < min_bytes_per_gpu(entry.lease.request)) return quota_text(entry);
  return explain(entry.lease.request, candidates_for(entry, pass, true), {});
}

Refusal Ledger::Impl::refusal_for(const Entry& entry, const SchedulingPass& pass) {
  const auto& request = entry.lease.request;
  if (const auto left = quota_left(entry); left && *left < min_bytes_per_gpu(request))
    return over_quota(entry);
  const auto candidates = candidates_for(entry, pass, true);
  Refusal refusal{explain(request, candidates, {}), obstacles(request, candidates), {}, {}};
  const auto plan = plan_victims(entry, pass, false);
  if (!plan.is_feasible) return refusal;
  Seconds longest{0};
  for (const auto* victim : plan.victims) {
    refusal.blocked_by.push_back(victim->lease.id);
    longest = std::max(longest, Seconds(victim->lease.expires_at - now));
  }
  refusal.may_fit_in = longest;
  return refusal;
}

Refusal Ledger::refusal(const LeaseRequest& request) const {
  if (auto never = impl_->why_never(request); !never.empty()) return {std::move(never), {}, {}, {}};
  Entry entry;
  entry.lease.request = request;
  entry.lease.requested_at = impl_->now;
  entry.agent = &impl_->agent_named(request.agent);
  entry.peer = impl_->peer_named(request.peer);
  impl_->set_step(entry);
  auto pass = impl_->begin_pass();
  impl_->keep_for_those_ahead(entry, pass);
  return impl_->refusal_for(entry, pass);
}

std::optional<Refusal> Ledger::refusal(LeaseId id) const {
  const auto at = impl_->entries.find(id);
  if (at == impl_->entries.end()) return std::nullopt;
  const auto& entry = at->second;
  if (entry.lease.state != State::waiting && entry.lease.state != State::on_cpu)
    return std::nullopt;
  if (auto never = impl_->why_never(entry.lease.request); !never.empty())
    return Refusal{std::move(never), {}, {}, {}};
  auto pass = impl_->begin_pass();
  impl_->keep_for_those_ahead(entry, pass);
  return impl_->refusal_for(entry, pass);
}

}  // namespace sluice::broker
