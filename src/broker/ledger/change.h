// What the ledger reports: the changes of leases, and why a request was not met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/lease/lease.h"
#include "broker/ledger/placement.h"

namespace sluice::broker {

// A change that the owner must act on: store it, notify listeners, signal a process.
struct Change {
  enum class What {
    queued,
    granted,
    renewed,
    yield_requested,  // the holder must be notified
    yield_withdrawn,  // it need not yield any more: it is held as before
    yield_overdue,    // Escalate::report: it did not yield in time, and keeps its lease
    ended,
    drained,   // a sample confirmed the return; `bytes` still held by the holder's process
    over_use,  // the holder uses more than promised: `bytes` in all
    within_again,
    preempted,  // Escalate::revoke, terminate: it has ended as revoked, for a waiting request
    terminate,  // Escalate::terminate: signal lease.request.holder; follows `preempted`
    card_lost,  // a card of this lease is unusable; the lease stays
    card_back,
    sent_to_cpu,  // State::on_cpu begins
    capacity,     // a GPU has capacity for this one, which is on_cpu; reported once per time
  };
  What what;
  LeaseId lease;
  std::uint64_t bytes = 0;
  std::string uuid;  // of the card, where one is meant
  std::string reason;
  bool is_own = false;  // of preempted, terminate: the request is of the holder's own user
};
using Changes = std::vector<Change>;
inline constexpr std::size_t kChanges = 16;  // kinds of them
std::string_view to_string(Change::What what) noexcept;

// Why a request could not be met, for the response.
struct Refusal {
  std::string reason;               // one sentence, however many cards there are
  std::vector<Obstacle> obstacles;  // what stands in the way on each
  // The cheapest set that would have to go: of the lowest priority, then the fewest,
  // then the smallest. Empty when no set would help, or waiting for a sample will.
  std::vector<LeaseId> blocked_by;
  std::optional<Seconds> may_fit_in;  // when those end if none is renewed
};

}  // namespace sluice::broker
