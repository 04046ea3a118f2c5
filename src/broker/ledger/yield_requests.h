// Asks holders to yield to a waiting request of higher priority, and follows what comes of it. Not
// thread-safe.
//
// While a lease is yielding, its request waits, and lists it among its pending yields.
#pragma once

#include <string>

#include "broker/ledger/deadlines.h"
#include "broker/ledger/hold_budgets.h"
#include "broker/ledger/scheduling_pass.h"
#include "broker/ledger/victim_planner.h"

namespace sluice::broker {

class YieldRequests {
 public:
  YieldRequests(const Policy& policy, LeaseTable& leases, Deadlines& deadlines, WaitQueue& queue,
                HoldBudgets& budgets, VictimPlanner& planner)
      : policy_(policy),
        leases_(leases),
        deadlines_(deadlines),
        queue_(queue),
        budgets_(budgets),
        planner_(planner) {}

  // Asks for the cheapest set that would do, unless an earlier one has still to answer, or the last
  // attempt was less than Policy::yield_within ago. What it gets is claimed in the pass.
  void ask(Entry& entry, SchedulingPass& pass, Changes& changes);
  // The request waits no more, or can no longer be served this way: they are held as before.
  void withdraw(Entry& entry, Changes& changes);
  // The yielder has ended: the memory that it returns is for its request.
  void yielded(const Entry& yielder);
  // It did not yield in time, and keeps its lease. The request will not ask it again.
  void decline(Entry& yielder);
  // After a restart: finds its request again, or is held as before where that one is gone.
  void rejoin(Entry& yielder);

  std::string broken_invariant() const;

 private:
  bool may_ask(const Entry& entry, SchedulingPass& pass);
  void claim(Entry& entry, const VictimPlan& plan, SchedulingPass& pass);
  void ask_one(Entry& victim, Entry& entry, Instant now, Changes& changes);
  std::string broken(const Entry& entry) const;

  const Policy& policy_;
  LeaseTable& leases_;
  Deadlines& deadlines_;
  WaitQueue& queue_;
  HoldBudgets& budgets_;
  VictimPlanner& planner_;
};

}  // namespace sluice::broker
