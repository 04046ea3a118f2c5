#include "broker/ledger/deadlines.h"

namespace sluice::broker {

namespace {

constexpr std::size_t kDeadlinesToSweep = 1024;

}  // namespace

void Deadlines::watch(Entry& entry) {
  const auto at = deadline_of(entry.lease);
  if (at >= entry.watched_at) return;
  entry.watched_at = at;
  deadlines_.emplace(at, entry.lease.id);
  if (deadlines_.size() > 2 * leases_.size() + kDeadlinesToSweep) sweep();
}

// Drops the deadlines of leases that ended long before them.
void Deadlines::sweep() {
  std::vector<Deadline> live;
  for (const auto& [id, entry] : leases_.all())
    if (entry.watched_at != Instant::max()) live.emplace_back(entry.watched_at, id);
  deadlines_ = decltype(deadlines_)(std::greater<>(), std::move(live));
}

Entry* Deadlines::pop_due(Instant now) {
  while (!deadlines_.empty() && deadlines_.top().first <= now) {
    const auto [at, id] = deadlines_.top();
    deadlines_.pop();
    auto* entry = leases_.find(id);
    if (entry == nullptr || entry->watched_at != at) continue;  // it ended, or has an earlier one
    entry->watched_at = Instant::max();
    return entry;
  }
  return nullptr;
}

Instant Deadlines::next() const {
  return deadlines_.empty() ? Instant::max() : deadlines_.top().first;
}

std::string Deadlines::broken_invariant() const {
  for (const auto& [id, entry] : leases_.all())
    if (deadline_of(entry.lease) < entry.watched_at)
      return on_lease(entry.lease, "has an unwatched deadline");
  return {};
}

}  // namespace sluice::broker
