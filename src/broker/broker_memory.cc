// Memory use of the holders of leases, from the newest process lists.
#include <fmt/core.h>

#include <algorithm>

#include "broker/broker_impl.h"
#include "broker/ledger/place.h"

namespace sluice::broker {

namespace {

void add_parts(Lease& to, const Lease& more) {
  for (const auto& part : more.parts) {
    const auto same = std::ranges::find(to.parts, part.uuid, &Part::uuid);
    if (same == to.parts.end())
      to.parts.push_back(part);
    else
      same->bytes += part.bytes;
  }
}

}  // namespace

std::optional<device::Timed> used_by(const Lease& lease,
                                     std::span<const CardSnapshot> card_snapshots) {
  if (lease.request.holder.pid == 0 || lease.parts.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  Instant oldest = Instant::max();
  for (const auto& part : lease.parts) {
    const auto card_snapshot = std::ranges::find(card_snapshots, part.uuid,
                                                 [](const CardSnapshot& s) { return s.card.uuid; });
    if (card_snapshot == card_snapshots.end() || !card_snapshot->card.processes_at)
      return std::nullopt;
    oldest = std::min(oldest, *card_snapshot->card.processes_at);
    for (const auto& p : card_snapshot->card.processes) {
      if (!is_holder(lease.request.holder, p)) continue;
      if (!p.bytes) return std::nullopt;
      bytes += *p.bytes;
    }
  }
  return device::Timed{static_cast<double>(bytes), oldest};
}

// A process with several leases is one owner, named by the first of them: which of them its
// bytes belong to cannot be seen.
std::vector<watch::OwnerMemory> Broker::memory_in_use() const {
  const Lock lock(impl_->mutex);
  std::map<ProcessId, Lease> owners;
  for (const auto* lease : impl_->ledger.live()) {
    if (lease->state != State::held && lease->state != State::yielding) continue;
    const auto& holder = lease->request.holder;
    const auto [owner, is_new] = owners.try_emplace({holder.pid, holder.start_time}, *lease);
    if (!is_new) add_parts(owner->second, *lease);
  }
  std::vector<watch::OwnerMemory> all;
  for (const auto& [process, lease] : owners) {
    const auto used = used_by(lease, impl_->card_snapshots);
    if (!used) continue;
    const auto& agent = lease.request.agent;
    all.push_back({watch::OwnerMemory::Kind::lease, fmt::format("lease-{}", lease.id), agent,
                   fmt::format("lease {} of {} (pid {})", lease.id, agent, process.first), *used,
                   promised(lease)});
  }
  return all;
}

}  // namespace sluice::broker
