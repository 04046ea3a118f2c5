// A lease as the ledger keeps it, shared by the parts of the ledger. Each group of members is
// changed by one of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "broker/lease/lease.h"

namespace sluice::broker {

struct Agent;  // accounts.h
struct Peer;

using CardIndex = std::uint32_t;             // in the CardTable
using Amounts = std::vector<std::uint64_t>;  // bytes, by CardIndex

// One part of a lease on its card.
struct PartState {
  CardIndex card;
  std::size_t index = 0;     // in the card's promises, while it counts
  bool counts = true;        // of a lease given back: until a sample was taken later
  bool is_reported = false;  // Change::drained
  std::uint64_t over = 0;    // bytes past the promise; above 0: Change::over_use was reported
};

struct Entry {
  Lease lease;
  unsigned requesters = 1;  // requests that are answered with it; see Ledger::add_retry()

  // Accounts.
  Agent* agent = nullptr;
  Peer* peer = nullptr;  // null: not known

  // CardTable.
  std::vector<PartState> part_states;  // beside lease.parts
  Instant seen_free_at{};              // of one given back: on the cards reported so far

  // Deadlines.
  Instant watched_at = Instant::max();

  // WaitQueue.
  std::int64_t step = 0;   // lower goes first
  bool is_keeper = false;  // among the keepers

  // Scheduler, while it waits or is on the CPU.
  bool is_holding = false;         // waited longer than hold_after
  bool is_kept_from_all = true;    // what is kept for it; false: from requests of its own peer only
  bool capacity_reported = false;  // Change::capacity

  // Scheduler and YieldRequests, while it waits.
  std::vector<CardIndex> targets;        // where capacity is kept for it
  Amounts claimed;                       // beside targets, once others were asked to yield to it
  std::vector<LeaseId> pending_yields;   // leases that have yet to yield to it
  std::unordered_set<LeaseId> declined;  // those that did not in time
  Instant next_yield_request_at{};

  // VictimPlanner, while it is held.
  std::uint64_t planned_in = 0;  // the last plan in which it is to go
};

// The time of its next automatic change.
inline Instant deadline_of(const Lease& lease) noexcept {
  if (lease.state == State::draining || lease.state == State::ended) return Instant::max();
  return lease.state == State::yielding ? std::min(lease.yield_by, lease.expires_at)
                                        : lease.expires_at;
}

inline std::uint64_t bytes_on(const Entry& entry, CardIndex card) noexcept {
  for (std::size_t i = 0; i < entry.part_states.size(); ++i)
    if (entry.part_states[i].card == card) return entry.lease.parts[i].bytes;
  return 0;
}

inline std::uint64_t less(std::uint64_t from, std::uint64_t by) noexcept {
  return from > by ? from - by : 0;
}

}  // namespace sluice::broker
