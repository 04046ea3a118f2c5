#include "broker/ledger/wait_queue.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

namespace sluice::broker {

namespace {

struct Turn {
  std::int64_t step;
  double share;
  Instant requested_at;
  LeaseId id;
  Entry* entry;
  friend bool operator<(const Turn& a, const Turn& b) {
    return std::tie(a.step, a.share, a.requested_at, a.id) <
           std::tie(b.step, b.share, b.requested_at, b.id);
  }
};

WaitQueue::Key key_of(const Entry& entry) {
  return {entry.step, entry.lease.requested_at, entry.lease.id};
}

}  // namespace

// The score in integer steps, stored as the time at which it was or will be zero: since all
// requests age together, this never changes.
void WaitQueue::set_step(Entry& entry) const {
  const double ageing = std::max(policy_.ageing.count(), 1e-3);
  const double requested = Seconds(entry.lease.requested_at.time_since_epoch()).count();
  entry.step = static_cast<std::int64_t>(std::floor(requested / ageing)) -
               static_cast<std::int64_t>(entry.lease.request.priority);
}

void WaitQueue::add(Entry& entry) {
  set_step(entry);
  (entry.lease.state == State::waiting ? waiting_ : on_cpu_).emplace(key_of(entry), &entry);
}

bool WaitQueue::remove(Entry& entry) {
  if (waiting_.erase(key_of(entry)) == 0) on_cpu_.erase(key_of(entry));
  if (!std::exchange(entry.is_keeper, false)) return false;
  std::erase(keepers_, &entry);
  return true;
}

void WaitQueue::apply_policy() {
  for (auto* list : {&waiting_, &on_cpu_})
    for (auto& [key, entry] : std::exchange(*list, {})) add(*entry);
}

void WaitQueue::make_keeper(Entry& entry) {
  if (!std::exchange(entry.is_keeper, true)) keepers_.push_back(&entry);
}

bool WaitQueue::is_ahead(const Entry& keeper, const Entry& newcomer, Instant now) {
  if (newcomer.lease.request.by_admin && !keeper.lease.request.by_admin) return false;
  if (keeper.step != newcomer.step) return keeper.step < newcomer.step;
  return share_of(*keeper.agent, now) <= share_of(*newcomer.agent, now);
}

std::vector<Entry*> WaitQueue::in_order(Instant t) const {
  std::vector<Turn> turns;
  turns.reserve(waiting_.size());
  for (const auto& [key, entry] : waiting_)
    turns.push_back({key.step, share_of(*entry->agent, t), key.requested_at, key.id, entry});
  std::ranges::sort(turns, std::less<>());
  std::vector<Entry*> order;
  order.reserve(turns.size());
  for (const auto& turn : turns) order.push_back(turn.entry);
  return order;
}

std::string WaitQueue::broken_invariant(const LeaseTable& leases) const {
  for (const auto& [id, entry] : leases.all()) {
    const auto& lease = entry.lease;
    if (waiting_.contains(key_of(entry)) != (lease.state == State::waiting))
      return on_lease(lease, "waits and is not in the queue, or is and does not");
    if (on_cpu_.contains(key_of(entry)) != (lease.state == State::on_cpu))
      return on_lease(lease, "is on the CPU and not listed so, or is and is not");
    if (entry.is_keeper != (std::ranges::count(keepers_, &entry) == 1))
      return on_lease(lease, "is kept capacity for and is not");
  }
  if (waiting_.size() + on_cpu_.size() > leases.size()) return "the queue has ghosts";
  for (const auto* keeper : keepers_)
    if (keeper->lease.state != State::waiting) return "capacity is kept for one that does not wait";
  return {};
}

}  // namespace sluice::broker
