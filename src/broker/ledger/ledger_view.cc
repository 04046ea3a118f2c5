// Looking into the ledger; nothing changes here.
#include <algorithm>

#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

const Lease* Ledger::find(LeaseId id) const {
  if (const auto at = impl_->entries.find(id); at != impl_->entries.end()) return &at->second.lease;
  const auto ended = impl_->just_ended.find(id);
  return ended == impl_->just_ended.end() ? nullptr : &ended->second.mapped().lease;
}

std::size_t Ledger::size() const noexcept { return impl_->entries.size(); }

std::vector<const Lease*> Ledger::live() const {
  std::vector<const Lease*> found;
  found.reserve(impl_->entries.size());
  for (const auto& [id, entry] : impl_->entries) found.push_back(&entry.lease);
  std::ranges::sort(found, {}, &Lease::id);
  return found;
}

std::vector<const Lease*> Ledger::page(bool on_cpu, LeaseId after, std::size_t limit) const {
  std::vector<const Lease*> found;
  for (const auto& [id, entry] : impl_->entries) {
    const auto state = entry.lease.state;
    if (id > after && state != State::waiting && (state == State::on_cpu) == on_cpu)
      found.push_back(&entry.lease);
  }
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(std::min(limit, found.size()));
  std::ranges::partial_sort(found, end, {}, &Lease::id);
  found.erase(end, found.end());
  return found;
}

Ledger::Counts Ledger::count() const noexcept {
  const auto waiting = impl_->queue.size(), on_cpu = impl_->on_cpu.size();
  return {impl_->entries.size() - waiting - on_cpu, waiting, on_cpu};
}

std::vector<const Lease*> Ledger::waiting() const {
  std::vector<const Lease*> found;
  for (const auto* entry : impl_->in_order(impl_->now)) found.push_back(&entry->lease);
  return found;
}

LeaseId Ledger::last_id() const noexcept { return impl_->last_id; }

}  // namespace sluice::broker
