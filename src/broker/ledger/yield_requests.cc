#include "broker/ledger/yield_requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "broker/ledger/limits.h"

namespace sluice::broker {

namespace {

std::string describe_request(const LeaseRequest& requester) {
  return fmt::format("{} asks for {} with {} priority", requester.agent,
                     human_bytes(min_bytes_per_gpu(requester)), to_string(requester.priority));
}

void stop_yielding(Lease& yielder) {
  yielder.state = State::held;
  yielder.yields_to = 0;
  yielder.yield_by = yielder.yield_requested_at = {};
  yielder.yield_reason.clear();
}

}  // namespace

bool YieldRequests::may_ask(const Entry& entry, SchedulingPass& pass) {
  return entry.lease.request.priority != Priority::low && entry.pending_yields.empty() &&
         pass.now() >= entry.next_yield_request_at && budgets_.may_hold(entry, pass.now()) &&
         pass.may_plan(entry);
}

void YieldRequests::ask(Entry& entry, SchedulingPass& pass, Changes& changes) {
  if (!may_ask(entry, pass)) return;
  entry.next_yield_request_at = later(pass.now(), policy_.yield_within);
  if (is_over_quota(policy_, entry)) return;
  const auto plan = planner_.plan(entry, pass, VictimPlanner::Of::to_ask);
  if (!plan.is_feasible || plan.victims.empty()) return;
  claim(entry, plan, pass);
  for (auto* victim : plan.victims) ask_one(*victim, entry, pass.now(), changes);
}

// Claims on each card what it needs beyond what the victims give back.
void YieldRequests::claim(Entry& entry, const VictimPlan& plan, SchedulingPass& pass) {
  pass.release_claims(entry);
  entry.targets = plan.cards;
  entry.claimed.clear();
  Amounts claimed;
  for (const auto card : plan.cards) {
    auto rest = min_bytes_per_gpu(entry.lease.request);
    for (const auto* victim : plan.victims) rest -= std::min(rest, bytes_on(*victim, card));
    claimed.push_back(std::min(rest, pass.coming_for(entry, card)));
  }
  entry.claimed = std::move(claimed);
  pass.claim(entry);
  queue_.make_keeper(entry);
}

void YieldRequests::ask_one(Entry& victim, Entry& entry, Instant now, Changes& changes) {
  auto& yielding = victim.lease;
  yielding.state = State::yielding;
  yielding.yield_requested_at = now;
  yielding.yield_by = later(now, policy_.yield_within);
  yielding.yields_to = entry.lease.id;
  yielding.yield_reason = describe_request(entry.lease.request);
  entry.pending_yields.push_back(yielding.id);
  deadlines_.watch(victim);
  changes.push_back({Change::What::yield_requested,
                     yielding.id,
                     0,
                     {},
                     fmt::format("{}; give this lease back within {}", yielding.yield_reason,
                                 human_duration(policy_.yield_within.count()))});
}

void YieldRequests::withdraw(Entry& entry, Changes& changes) {
  for (const auto id : std::exchange(entry.pending_yields, {})) {
    stop_yielding(leases_.find(id)->lease);
    changes.push_back({Change::What::yield_withdrawn, id, 0, {}, "the memory is not needed now"});
  }
  entry.claimed.clear();
  entry.targets.clear();
}

void YieldRequests::yielded(const Entry& yielder) {
  auto* requester = leases_.find(yielder.lease.yields_to);
  if (requester == nullptr) return;
  std::erase(requester->pending_yields, yielder.lease.id);
  const auto min_bytes = min_bytes_per_gpu(requester->lease.request);
  for (std::size_t i = 0; i < requester->claimed.size(); ++i)
    requester->claimed[i] =
        std::min(min_bytes, requester->claimed[i] + bytes_on(yielder, requester->targets[i]));
}

void YieldRequests::decline(Entry& yielder) {
  if (auto* requester = leases_.find(yielder.lease.yields_to); requester != nullptr) {
    std::erase(requester->pending_yields, yielder.lease.id);
    requester->declined.insert(yielder.lease.id);
  }
  stop_yielding(yielder.lease);
}

void YieldRequests::rejoin(Entry& yielder) {
  auto& lease = yielder.lease;
  if (lease.yields_to == 0) return;
  auto* requester = leases_.find(lease.yields_to);
  if (requester == nullptr || requester->lease.state != State::waiting) {
    if (lease.state == State::yielding) lease.state = State::held;
    lease.yields_to = 0;
    return;
  }
  for (const auto& part_state : yielder.part_states)
    if (std::ranges::find(requester->targets, part_state.card) == requester->targets.end() &&
        requester->targets.size() < requester->lease.request.gpus)
      requester->targets.push_back(part_state.card), requester->claimed.push_back(0);
  queue_.make_keeper(*requester);
  if (lease.state == State::yielding) {
    requester->pending_yields.push_back(lease.id);
    lease.yield_reason = describe_request(requester->lease.request);
  }
  if (lease.state == State::draining) yielded(yielder);
}

std::string YieldRequests::broken(const Entry& entry) const {
  const auto& lease = entry.lease;
  for (const auto id : entry.pending_yields) {
    const auto* yielder = std::as_const(leases_).find(id);
    if (yielder == nullptr || yielder->lease.state != State::yielding ||
        yielder->lease.yields_to != lease.id)
      return on_lease(lease, "waits for one that does not yield to it");
  }
  if (!entry.claimed.empty() && entry.claimed.size() != entry.targets.size())
    return on_lease(lease, "claims capacity on other cards than its own");
  if (lease.state != State::yielding) return {};
  const auto* requester = std::as_const(leases_).find(lease.yields_to);
  if (requester == nullptr || requester->lease.state != State::waiting)
    return on_lease(lease, "yields to one that does not wait");
  if (requester->lease.request.priority <= lease.request.priority)
    return on_lease(lease, "yields to one of no higher priority");
  if (std::ranges::count(requester->pending_yields, lease.id) != 1)
    return on_lease(lease, "yields to a request that did not ask it to");
  return {};
}

std::string YieldRequests::broken_invariant() const {
  for (const auto& [id, entry] : leases_.all())
    if (auto problem = broken(entry); !problem.empty()) return problem;
  return {};
}

}  // namespace sluice::broker
