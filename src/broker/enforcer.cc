#include "broker/enforcer.h"

#include <utility>

#include "broker/enforce/enforce.h"

namespace sluice::broker {

Enforcement Enforcer::tier_of(const Lease& lease, Instant now) const {
  auto seen = cards_.evidence_for(lease, now, Seconds(config_.stale_s));
  if (!seen) return Enforcement::none;
  seen->host_pids = abilities_.host_pids;
  seen->cgroup_verified = limited_.contains(lease.id);
  return enforcement_of(lease, *seen);
}

void Enforcer::judge(LeaseId id, Instant now) {
  const auto* lease = ledger_.find(id);
  if (lease == nullptr || !is_held(*lease)) return;
  const auto tier = tier_of(*lease, now);
  if (tier == lease->enforcement) return;
  ledger_.set_enforcement(id, tier);
  journal_.add(*lease);
}

void Enforcer::judge_all(Instant now) {
  for (const auto* lease : ledger_.live()) {
    if (!is_held(*lease)) continue;
    if (config_.cgroups && !grouped_.contains(lease->id)) to_limit_.insert(lease->id);
    judge(lease->id, now);
  }
}

void Enforcer::granted(LeaseId id) {
  if (config_.cgroups) to_limit_.insert(id);
}

void Enforcer::ended(LeaseId id) {
  limited_.erase(id), tried_.erase(id);
  if (grouped_.erase(id) + groups_before_.erase(id) != 0) to_lift_.insert(id);
}

// A process can be in one group only: one with several leases is in none. True when it is not
// followed, too.
bool Enforcer::leaves_shared(LeaseId id) {
  if (!holders_.is_followed(id)) return true;
  const auto others = holders_.others_of(id);
  for (const auto other : others) ended(other);
  return !others.empty();
}

LimitWork Enforcer::take_work() {
  LimitWork work;
  for (const auto id : std::exchange(to_limit_, {})) {
    const auto* lease = ledger_.find(id);
    if (lease == nullptr || lease->request.holder.pid == 0 || tried_.contains(id)) continue;
    if (leaves_shared(id)) continue;
    if (auto limits = cards_.limits_for(*lease); !limits.empty()) {
      work.jobs.push_back({id, lease->request.holder, std::move(limits)});
      continue;
    }
    const auto used = cards_.used_by(*lease);
    if (!used || !abilities_.has_driver || !cards_.is_on_nvidia(*lease)) continue;
    tried_.insert(id);
    work.for_driver.emplace_back(*lease, used->value > 0);
  }
  work.lift.swap(to_lift_);
  return work;
}

void Enforcer::limited(LeaseId id, Instant now) {
  const auto* lease = ledger_.find(id);
  if (lease == nullptr || !is_held(*lease) || leaves_shared(id)) {
    to_lift_.insert(id);
    return;
  }
  grouped_.insert(id), limited_.insert(id);
  judge(id, now);
}

std::vector<LimitJob> Enforcer::standing() const {
  std::vector<LimitJob> jobs;
  for (const auto id : grouped_)
    if (const auto* lease = ledger_.find(id))
      jobs.push_back({id, lease->request.holder, cards_.limits_for(*lease)});
  return jobs;
}

void Enforcer::checked(LeaseId id, bool stands, Instant now) {
  if (!grouped_.contains(id)) return;  // it ended meanwhile
  if (stands)
    limited_.insert(id);
  else
    limited_.erase(id);
  judge(id, now);
}

}  // namespace sluice::broker
