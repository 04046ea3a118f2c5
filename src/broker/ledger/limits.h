// Limits of agents and peers, as rules on plain values. Each peer has limits of its own, so that
// one which takes all it can leaves the others theirs; the last quarter of the shared limits is for
// peers that have little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "broker/ledger/accounts.h"
#include "broker/ledger/change.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

// Throw exhausted, naming the limit. `peer` is null where it has no leases or is not known;
// `all` and `waiting` are the leases and waiting requests of all peers.
void check_may_lease(const Policy& policy, const LeaseRequest& request, const Peer* peer,
                     std::size_t all);
void check_may_wait(const Policy& policy, const Peer* peer, std::size_t waiting);
void check_may_use_cpu(const Policy& policy, const Peer* peer);

// Bytes that it may still hold on each of its GPUs; nothing when there is no limit.
std::optional<std::uint64_t> quota_left(const Policy& policy, const Entry& entry);
// Whether quota_left() is too little for the request.
bool is_over_quota(const Policy& policy, const Entry& entry);
// Where it could not even hold this alone; else empty.
std::string why_over_quota(const Policy& policy, const LeaseRequest& request);
// Which quota is used up, as a sentence.
std::string quota_text(const Policy& policy, const Entry& entry);
// The same with those that are in the way: its own leases, those that end first.
Refusal quota_refusal(const Policy& policy, const Entry& entry, const LeaseTable& leases,
                      Instant now);

}  // namespace sluice::broker
