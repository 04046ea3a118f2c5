#include "broker/followed_holders.h"

namespace sluice::broker {

void FollowedHolders::follow(const Lease& lease) {
  const auto& holder = lease.request.holder;
  if (holder.pid == 0) return;
  const ProcessId id{holder.pid, holder.start_time};
  if (is_over(lease)) {
    if (processes_.erase(lease.id) != 0 && watch_) watch_->forget(id.first, id.second);
  } else if (processes_.try_emplace(lease.id, id).second && watch_) {
    watch_->watch(id.first, id.second);
  }
}

std::set<ProcessId> FollowedHolders::all() const {
  std::set<ProcessId> all;
  for (const auto& [lease, process] : processes_) all.insert(process);
  return all;
}

std::vector<LeaseId> FollowedHolders::others_of(LeaseId id) const {
  std::vector<LeaseId> others;
  const auto own = processes_.find(id);
  if (own == processes_.end()) return others;
  for (const auto& [other, process] : processes_)
    if (other != id && process == own->second) others.push_back(other);
  return others;
}

}  // namespace sluice::broker
