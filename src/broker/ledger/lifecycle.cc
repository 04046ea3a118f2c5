#include "broker/ledger/lifecycle.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace sluice::broker {

Entry& Lifecycle::enter(Lease&& lease, Instant now) {
  auto& entry = leases_.add(std::move(lease));
  accounts_.join(entry, now);
  return entry;
}

Entry& Lifecycle::enter_queue(Lease&& lease, Instant now) {
  auto& entry = enter(std::move(lease), now);
  scheduler_.add(entry);
  deadlines_.watch(entry);
  return entry;
}

// Removes the lease from all lists but the cards'; find_lease() still returns it once.
void Lifecycle::finish(Entry& entry) {
  accounts_.leave(entry);
  leases_.end(entry);
}

void Lifecycle::finish(const std::vector<Entry*>& entries) {
  for (auto* entry : entries) finish(*entry);
}

void Lifecycle::end(Entry& entry, EndReason ending, std::string reason, Instant now,
                    Changes& changes) {
  auto& lease = entry.lease;
  leases_.drop_key(entry);
  lease.ending = ending;
  lease.reason = std::move(reason);
  lease.ended_at = now;
  changes.push_back({Change::What::ended, lease.id, 0, {}, lease.reason});
  if (!is_held(lease)) {
    scheduler_.remove(entry, changes);
    return finish(entry);
  }
  if (lease.state == State::yielding) scheduler_.yields().yielded(entry);
  accounts_.set_state(entry, State::draining);
  lease.over_use = 0;
  accounts_.give_back(entry);
  cards_.give_back(entry);
  if (entry.agent->quota || policy_.max_bytes_per_peer > 0) scheduler_.make_due();
}

void Lifecycle::expire(Entry& entry, Instant now, Changes& changes) {
  const auto& lease = entry.lease;
  if (lease.state != State::waiting)
    return end(entry, EndReason::expired,
               fmt::format("not renewed within {}", human_duration(lease.request.ttl.count())), now,
               changes);
  const auto waited = human_duration(seconds_between(lease.requested_at, now));
  const auto why = scheduler_.reason_for(entry, now);
  end(entry, EndReason::timed_out,
      fmt::format("waited {} and there was no capacity: {}", waited, why), now, changes);
}

void Lifecycle::give_time(Lease& lease, Instant now) {
  if (lease.state == State::waiting || lease.state == State::draining) return;
  const auto until = later(now, std::min(lease.request.ttl, kGrace));
  lease.expires_at = std::max(lease.expires_at, until);
  if (lease.state == State::yielding) lease.yield_by = std::max(lease.yield_by, until);
}

void Lifecycle::due(Entry& entry, Instant now, Changes& changes) {
  if (scheduler_.is_paused()) give_time(entry.lease, now);
  if (deadline_of(entry.lease) > now) return deadlines_.watch(entry);  // it was renewed meanwhile
  if (entry.lease.expires_at <= now) return expire(entry, now, changes);
  yield_is_overdue(entry, now, changes);
  deadlines_.watch(entry);
}

void Lifecycle::yield_is_overdue(Entry& entry, Instant now, Changes& changes) {
  auto& lease = entry.lease;
  const auto reason = fmt::format("it did not yield within {} when asked to",
                                  human_duration(policy_.yield_within.count()));
  const auto* requester = leases_.find(lease.yields_to);
  if (policy_.escalate == Policy::Escalate::report || requester == nullptr ||
      !may_preempt(requester->lease.request, lease.request)) {
    scheduler_.yields().decline(entry);
    changes.push_back({Change::What::yield_overdue, lease.id, 0, {}, reason});
    return;
  }
  const auto& request = requester->lease.request;
  const bool own = is_same_user(request, lease.request);
  const auto whose = fmt::format("{}; {} ({}) asked", reason, request.agent, request.peer);
  end(entry, EndReason::revoked, reason, now, changes);
  changes.push_back({Change::What::preempted, lease.id, 0, {}, whose, own});
  if (policy_.escalate == Policy::Escalate::terminate && lease.request.holder.pid != 0)
    changes.push_back({Change::What::terminate, lease.id, 0, {}, whose, own});
}

}  // namespace sluice::broker
