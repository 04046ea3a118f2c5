// Serves requests from what is free: grants, keeps capacity for those that wait long, and asks
// holders to yield. The order of service is in ledger.h. Not thread-safe.
#pragma once

#include <span>
#include <string>

#include "broker/ledger/accounts.h"
#include "broker/ledger/card_table.h"
#include "broker/ledger/deadlines.h"
#include "broker/ledger/hold_budgets.h"
#include "broker/ledger/reservations.h"
#include "broker/ledger/scheduling_pass.h"
#include "broker/ledger/victim_planner.h"
#include "broker/ledger/wait_queue.h"
#include "broker/ledger/yield_requests.h"

namespace sluice::broker {

class Scheduler {
 public:
  // The parts stay alive while this does.
  Scheduler(const Policy& policy, LeaseTable& leases, Deadlines& deadlines, CardTable& cards,
            Accounts& accounts);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const WaitQueue& queue() const noexcept { return queue_; }
  YieldRequests& yields() noexcept { return yields_; }

  // A request that is not in the table yet, or is asked about once more.
  Entry newcomer(const LeaseRequest& request, Instant now);
  // What is free for it now, with what is kept for those ahead of it.
  SchedulingPass pass_for(const Entry& entry, Instant now);
  Choice choose_for(const Entry& entry, std::span<const CandidateCard> candidates) const;
  // Holds the chosen parts from `now` on, for an entry of the table.
  void grant(Entry& entry, const Choice& choice, std::span<const CandidateCard> candidates,
             Instant now, Changes& changes);
  // Why it can never be granted; else empty.
  std::string why_never(const LeaseRequest& request) const;
  std::string reason_for(const Entry& entry, Instant now);  // without a look at who is in the way
  Refusal refusal_for(const Entry& entry, const SchedulingPass& pass);

  // An entry that waits, or is on the CPU.
  void add(Entry& entry) { queue_.add(entry); }
  // It is over, or is granted: none need to yield to it any more.
  void remove(Entry& entry, Changes& changes);

  // A pass over the queue. While paused there is none, and one is due afterwards.
  void serve(Instant now, Changes& changes);
  void serve_if_due(Instant now, Changes& changes);
  void make_due() noexcept { is_due_ = true; }  // something ended that kept others waiting
  void pause() noexcept { is_paused_ = true; }
  void resume() noexcept { is_paused_ = false, is_due_ = true; }
  bool is_paused() const noexcept { return is_paused_; }

  void apply_policy(Instant now);
  void cards_changed(Instant now);

  std::string broken_invariant() const;

 private:
  bool try_grant(Entry& entry, SchedulingPass& pass, Changes& changes);
  bool are_good_targets(const Entry& entry) const;
  std::uint64_t own_blocking(const Entry& entry, CardIndex card) const;
  bool is_behind_its_own(const Entry& entry) const;
  void choose_targets(Entry& entry, SchedulingPass& pass, Changes& changes);
  void hold_capacity(Entry& entry, SchedulingPass& pass, Changes& changes);
  void report_capacity(SchedulingPass& pass, Changes& changes);

  const Policy& policy_;
  LeaseTable& leases_;
  Deadlines& deadlines_;
  CardTable& cards_;
  Accounts& accounts_;
  WaitQueue queue_;
  HoldBudgets budgets_;
  Reservations reservations_;
  VictimPlanner planner_;
  YieldRequests yields_;
  bool is_due_ = false, is_paused_ = false;
};

}  // namespace sluice::broker
