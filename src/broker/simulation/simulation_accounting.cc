#include "broker/simulation/simulation_accounting.h"

#include <fmt/core.h>

namespace sluice::broker {

namespace {

bool follows_an_end(Change::What what) {
  return what == Change::What::drained || what == Change::What::preempted ||
         what == Change::What::terminate;
}

}  // namespace

SimulationAccounting::SimulationAccounting(const std::vector<Card>& cards, Seconds longest_wait)
    : longest_wait_(longest_wait) {
  for (const auto& card : cards) {
    index_[card.uuid] = cards_.size();
    cards_.push_back({card.total, 0, {}, {}, {}});
  }
}

void SimulationAccounting::breaks(LeaseId id, const char* what) {
  if (broken_.empty()) broken_ = fmt::format("lease {}: {}", id, what);
}

void SimulationAccounting::enter(LeaseId id, const Ledger& ledger) {
  const auto* lease = ledger.find(id);
  if (lease == nullptr) return breaks(id, "reported, and not found");
  if (id <= last_id_) return breaks(id, "a number was used twice");
  last_id_ = id;
  leases_[id] = {lease->request.priority, lease->requested_at, lease->expires_at, false, false, {}};
}

void SimulationAccounting::granted(LeaseId id, const Ledger& ledger, Instant now) {
  if (id > last_id_) enter(id, ledger);
  const auto at = leases_.find(id);
  if (at == leases_.end()) return breaks(id, "granted after its end");
  auto& row = at->second;
  if (row.is_granted) return breaks(id, "granted twice");
  row.is_granted = true;
  if (std::exchange(row.is_waiting, false)) {
    queue_.erase({row.requested_at, id});
    waits_[static_cast<std::size_t>(row.priority)].push_back(
        static_cast<float>(seconds_between(row.requested_at, now)));
  }
  const auto* lease = ledger.find(id);
  row.expires_at = lease->expires_at;
  for (const auto& part : lease->parts) {
    const auto card = index_.at(part.uuid);
    row.parts.emplace_back(card, part.bytes);
    cards_[card].promised += part.bytes;
    if (lease->request.holder.pid == 0) cards_[card].unknown.push_back({id, now, part.bytes});
    auto taken = cards_[card].promised;
    if (taken > cards_[card].total) breaks(id, "promised more than the card has");
    for (const auto& [pid, unmanaged_process] : cards_[card].unmanaged)
      taken += unmanaged_process.bytes;
    if (taken - may_be_unmanaged(cards_[card]) > cards_[card].total)
      breaks(id, "promised memory that an unmanaged process was known to have");
  }
}

// Only what came after a lease was granted can be that lease's.
std::uint64_t SimulationAccounting::may_be_unmanaged(const CardAccount& card) {
  std::uint64_t sum = 0;
  for (auto lease = card.unknown.rbegin(); lease != card.unknown.rend(); ++lease) {
    std::uint64_t later = 0;
    for (const auto& [pid, unmanaged_process] : card.unmanaged)
      if (unmanaged_process.known_since > lease->granted_at) later += unmanaged_process.bytes;
    sum = std::max(sum, std::min(sum + lease->bytes, later));
  }
  return sum;
}

void SimulationAccounting::ended(LeaseId id, Instant now) {
  const auto at = leases_.find(id);
  if (at == leases_.end()) return breaks(id, "ended twice, or never begun");
  for (const auto& [card, bytes] : at->second.parts)
    cards_[card].given_back.push_back({id, now, bytes});
  if (at->second.is_waiting) queue_.erase({at->second.requested_at, id});
  leases_.erase(at);
}

void SimulationAccounting::read(const Changes& changes, const Ledger& ledger, Instant now) {
  for (const auto& change : changes) {
    switch (change.what) {
      case Change::What::queued:
        enter(change.lease, ledger);
        if (auto at = leases_.find(change.lease); at != leases_.end()) {
          at->second.is_waiting = true;
          queue_.insert({at->second.requested_at, change.lease});
        }
        break;
      case Change::What::sent_to_cpu: enter(change.lease, ledger); break;
      case Change::What::granted: granted(change.lease, ledger, now); break;
      case Change::What::ended: ended(change.lease, now); break;
      case Change::What::renewed:
        if (auto at = leases_.find(change.lease); at != leases_.end())
          at->second.expires_at = ledger.find(change.lease)->expires_at;
        else
          breaks(change.lease, "renewed after its end");
        break;
      default:
        if (!follows_an_end(change.what) && !is_live(change.lease))
          breaks(change.lease, "reported after its end");
    }
  }
  if (!queue_.empty() && seconds_between(queue_.begin()->first, now) > longest_wait_.count())
    breaks(queue_.begin()->second, "was starved");
}

void SimulationAccounting::sampled(std::size_t card, Instant taken_at) {
  auto& book = cards_[card];
  std::erase_if(book.given_back, [&](const GivenBack& back) {
    if (taken_at <= back.at) return false;
    book.promised -= back.bytes;
    std::erase_if(book.unknown, [&](const Unknown& lease) { return lease.id == back.id; });
    return true;
  });
}

void SimulationAccounting::listed(std::size_t card,
                                  const std::map<std::int64_t, std::uint64_t>& unmanaged,
                                  Instant now) {
  auto& known = cards_[card].unmanaged;
  std::erase_if(known, [&](const auto& one) { return !unmanaged.contains(one.first); });
  for (const auto& [pid, bytes] : unmanaged) known.try_emplace(pid, UnmanagedProcess{bytes, now});
}

void SimulationAccounting::restarted() {
  for (auto& card : cards_) card.unmanaged.clear();
}

void SimulationAccounting::renewed(LeaseId id, Ledger::Outcome outcome, Instant now) {
  const auto at = leases_.find(id);
  if (outcome == Ledger::Outcome::done && at == leases_.end())
    breaks(id, "came back after its end");
  if (outcome != Ledger::Outcome::done && at != leases_.end())
    breaks(id, "was lost: its holder could not renew it");
  if (at != leases_.end() && at->second.expires_at <= now) breaks(id, "outlived its time");
}

void SimulationAccounting::compare(const Ledger& ledger) {
  std::size_t live = 0;
  for (const auto* lease : ledger.live()) {
    if (lease->state == State::draining) continue;
    ++live;
    const auto at = leases_.find(lease->id);
    if (at == leases_.end()) return breaks(lease->id, "lives without having begun, or again");
    if (at->second.is_granted != !lease->parts.empty())
      return breaks(lease->id, "was granted and holds nothing, or was not and does");
    for (std::size_t i = 0; i < lease->parts.size(); ++i)
      if (at->second.parts[i].second != lease->parts[i].bytes)
        return breaks(lease->id, "changed its size");
  }
  if (live != leases_.size()) breaks(last_id_, "some lease was lost up to here");
}

std::uint64_t SimulationAccounting::promised() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& card : cards_) sum += card.promised;
  return sum;
}

}  // namespace sluice::broker
