// The load and the free capacity of one card: its sample joined with the promises on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/lease/card.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

// Memory in use on a card when a promise was made: none of it can be the new holder's.
struct InUse {
  std::vector<CardProcess> processes;  // by number and start time, one each
  std::uint64_t unlisted = 0;          // used beside them
};
InUse in_use_on(const Card& card);

// A promise of memory on one card.
struct Promise {
  LeaseId lease;
  std::uint64_t bytes;
  Holder holder;
  Instant granted_at;
  std::optional<Instant> given_back_at;  // draining
  // At granted_at, for a holder without a known pid. Null: not known, after a restart.
  std::shared_ptr<const InUse> before = nullptr;
};

// Whether a process of a card's list is this holder. A start time that could not be
// read leaves the pid to decide.
bool is_holder(const Holder& holder, const CardProcess& process) noexcept;

// Whether a promise still counts: it was not given back, or no sample was taken since.
bool counts(const Promise& promise, const Card& card) noexcept;

// Promises to one process on one card, and its real use there.
struct HolderUse {
  Holder holder;  // of one of the promises; pid 0 stands for all that are unknown
  std::uint64_t promised = 0;
  std::uint64_t fresh = 0;     // of these, promised after the card was sampled
  std::uint64_t unlisted = 0;  // of these, promised after the processes were listed
  std::uint64_t used = 0;
  bool is_reported = true;  // whether the list has its memory use
};
struct CardUse {
  std::vector<HolderUse> holders;  // by pid and start time
  std::uint64_t unmanaged = 0;
};
CardUse use_on(const Card& card, std::span<const Promise> promises);

// The load of a card according to its sample; it does not depend on the time.
//
// taken = max(used + what was promised after that sample was taken,
//             promised,
//             unmanaged processes + sum of max(promised, really used) over the holders).
// The third term needs the list of processes and the holder's pid. The memory of a
// holder without a known pid is among the unmanaged processes', but only in what they took since
// its grant: as much of the promise is not counted twice, and all else of both counts.
struct Load {
  std::uint64_t promised = 0;   // sum of the promises that count
  std::uint64_t unmanaged = 0;  // used by processes that hold no lease
  std::uint64_t taken = 0;      // no byte of these may be promised
};
Load load_on(const Card& card, std::span<const Promise> promises);

struct CardCapacity {
  std::uint64_t free = 0;       // bytes that may be promised now
  std::uint64_t promised = 0;   // sum of the promises
  std::uint64_t unmanaged = 0;  // used by processes that hold no lease
  std::string why;              // why free is 0 though the card is not full; else empty
};

// Why nothing may be promised on this card now, full or not; empty when it may. A
// sample older than `stale`, times the sampler's slowness, means that nothing is known.
std::string why_closed(const Card& card, Instant now, Seconds stale);
bool is_open(const Card& card, Instant now, Seconds stale) noexcept;

// free = total - taken. A promise given back counts in full until a sample taken after
// that moment. No capacity on a closed card.
CardCapacity capacity_on(const Card& card, std::span<const Promise> promises, Instant now,
                         Seconds stale);

}  // namespace sluice::broker
