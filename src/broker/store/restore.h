// Restores the leases of a broker that has ended, when the next one starts.
#pragma once

#include <string>
#include <vector>

#include "broker/lease/lease.h"
#include "broker/store/store.h"

namespace sluice::broker {

struct Restored {
  std::vector<Lease> live;   // for the ledger
  std::vector<Lease> ended;  // to be stored as such
};

// Leases keep their number, secret and renewals. A lease in the store that had not ended was
// valid when the broker was last alive, and its holder could not renew since: it gets its
// time to live once more, at most 15 seconds, and never less than it had left. What was
// being given back counts as given back: the first sample is newer than that. After a
// reboot no earlier process lives. Connections are cut, so a waiting request ends: its client
// is gone and asks again. Leases that were asked to yield to it are held as before.
Restored restored(std::vector<Lease> stored, bool same_boot, const Moment& at);

}  // namespace sluice::broker
