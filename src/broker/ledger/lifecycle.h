// The ways in which a lease begins and ends, made known to each part of the ledger: it enters, is
// over, is back on its cards, passes its time. Grants are the Scheduler's. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "broker/ledger/accounts.h"
#include "broker/ledger/card_table.h"
#include "broker/ledger/deadlines.h"
#include "broker/ledger/lease_table.h"
#include "broker/ledger/scheduler.h"

namespace sluice::broker {

class Lifecycle {
 public:
  // The parts stay alive while this does.
  Lifecycle(const Policy& policy, LeaseTable& leases, Deadlines& deadlines, CardTable& cards,
            Accounts& accounts, Scheduler& scheduler)
      : policy_(policy),
        leases_(leases),
        deadlines_(deadlines),
        cards_(cards),
        accounts_(accounts),
        scheduler_(scheduler) {}

  // Enters a lease that was granted at once, or is restored: the caller adds its parts.
  Entry& enter(Lease&& lease, Instant now);
  // Enters a lease that waits, or is on the CPU.
  Entry& enter_queue(Lease&& lease, Instant now);
  // One that is held drains until samples confirm the return; any other is over at once.
  void end(Entry& entry, EndReason ending, std::string reason, Instant now, Changes& changes);
  // These are back on all their cards.
  void finish(const std::vector<Entry*>& entries);

  // Its deadline, as it was when watched, has come: it ends, is late to yield, or was renewed.
  void due(Entry& entry, Instant now, Changes& changes);
  // It expires, or has waited too long.
  void expire(Entry& entry, Instant now, Changes& changes);
  // While nothing can be stored no holder can renew: it has kGrace at least. Waiting requests get
  // no time: the end of a wait can be reported without a store.
  static void give_time(Lease& lease, Instant now);

 private:
  void finish(Entry& entry);
  void yield_is_overdue(Entry& entry, Instant now, Changes& changes);

  const Policy& policy_;
  LeaseTable& leases_;
  Deadlines& deadlines_;
  CardTable& cards_;
  Accounts& accounts_;
  Scheduler& scheduler_;
};

}  // namespace sluice::broker
