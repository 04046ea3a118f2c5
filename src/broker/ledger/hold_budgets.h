// How long capacity may be kept for the requests of each peer: Policy::hold_for, of which as much
// comes back in four times the time without. Not thread-safe.
#pragma once

#include <string>
#include <unordered_map>

#include "broker/ledger/accounts.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

class HoldBudgets {
 public:
  explicit HoldBudgets(const Policy& policy) : policy_(policy) {}

  // Always true for administrators and for a peer that is not known. A budget that was spent may
  // be used again when half of it is back.
  bool may_hold(const Entry& entry, Instant now);
  // Capacity is kept for it from now until the next look at its peer's budget.
  void note_kept(const Entry& entry, Instant now);
  // Drops the budgets of peers that have all of it again.
  void forget_full(Instant now);

 private:
  struct Budget {
    double used_s = 0;  // of Policy::hold_for; comes back while none is kept
    Instant as_of{};
    bool is_kept = false, is_spent = false;
  };
  Budget* budget_of(const Entry& entry, Instant now);

  const Policy& policy_;
  std::unordered_map<std::string, Budget> budgets_;  // by peer
};

}  // namespace sluice::broker
