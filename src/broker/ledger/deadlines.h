// The times at which leases change by themselves: they expire, stop waiting, or are late to yield.
// Not thread-safe.
#pragma once

#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/lease_table.h"

namespace sluice::broker {

class Deadlines {
 public:
  explicit Deadlines(LeaseTable& leases) : leases_(leases) {}

  // To be called when deadline_of() the lease may have become earlier. A later one needs no call:
  // then it comes up too early, and is watched again.
  void watch(Entry& entry);
  // The next lease whose deadline, as it was when watched, is not after `now`; null without
  // one. It is not watched any more.
  Entry* pop_due(Instant now);
  Instant next() const;  // Instant::max() without any

  std::string broken_invariant() const;

 private:
  using Deadline = std::pair<Instant, LeaseId>;
  void sweep();

  LeaseTable& leases_;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;
};

}  // namespace sluice::broker
