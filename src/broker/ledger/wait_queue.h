// The order in which waiting requests are served, those on the CPU that wait for capacity, and the
// requests that capacity is kept for. See Ledger for the order. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "broker/ledger/accounts.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

class WaitQueue {
 public:
  explicit WaitQueue(const Policy& policy) : policy_(policy) {}

  // Entries belong to the LeaseTable; each is removed before its state changes.
  void add(Entry& entry);     // waiting, or on the CPU
  bool remove(Entry& entry);  // whether capacity was kept for it
  void set_step(Entry& entry) const;
  void apply_policy();  // Policy::ageing has changed

  void make_keeper(Entry& entry);  // capacity is kept for it until it is removed
  const std::vector<Entry*>& keepers() const noexcept { return keepers_; }
  // Whether what is kept for `keeper` is kept from `newcomer`, which may not be in the queue.
  static bool is_ahead(const Entry& keeper, const Entry& newcomer, Instant now);

  std::size_t waiting() const noexcept { return waiting_.size(); }
  std::vector<Entry*> in_order(Instant t) const;  // those that wait
  struct Key {
    std::int64_t step;
    Instant requested_at;
    LeaseId id;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Entries = std::map<Key, Entry*>;
  const Entries& on_cpu() const noexcept { return on_cpu_; }

  std::string broken_invariant(const LeaseTable& leases) const;

 private:
  const Policy& policy_;
  Entries waiting_, on_cpu_;
  std::vector<Entry*> keepers_;  // that wait
};

}  // namespace sluice::broker
