// Placement of a lease: a pure function of the request and of what is free.
#pragma once

#include <cstdint>
#include <memory>
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

struct CandidateCard {
  const Card* card;
  CardCapacity capacity;
  std::uint64_t held_back = 0;  // of capacity.free, for others: reservations, an older request

  std::uint64_t available() const noexcept {
    return capacity.free > held_back ? capacity.free - held_back : 0;
  }
};

// The minimum that `request` takes on each GPU.
std::uint64_t min_bytes_per_gpu(const LeaseRequest& request) noexcept;
// Whether `request` leaves the choice of this card open: it names none, or this one by its UUID,
// its bus, its index or, once all GPUs are listed, the beginning of its UUID.
bool may_use(const LeaseRequest& request, const Card& card) noexcept;

// Indexes of the chosen candidates and the bytes on each; empty: it does not fit now.
struct Choice {
  std::vector<std::size_t> candidates;
  std::uint64_t bytes = 0;
  bool linked = false;  // all of them reach each other by NVLink
};
// Best fit by default. As much of `bytes` as can be had down to min_bytes, the same on
// each GPU. Ties go to the lower bus, so that the response is the same every time.
Choice choose(const LeaseRequest& request, std::span<const CandidateCard> candidates);

struct Placement {
  std::vector<Part> parts;  // empty: it does not fit now
  std::string reason;       // why these, or what stands in the way on the best card
};

// A card that `request` may use and that has too little free memory now.
struct Obstacle {
  std::string uuid, bus, name;
  std::uint64_t free = 0, kept = 0;  // bytes; `kept` of `free` for others
  std::string why;                   // why nothing may be promised there; empty: too little is free
};
std::vector<Obstacle> obstacles(const LeaseRequest& request,
                                std::span<const CandidateCard> candidates);

// choose(), and the sentence that explains it.
Placement place(const LeaseRequest& request, std::span<const CandidateCard> candidates);
std::string explain(const LeaseRequest& request, std::span<const CandidateCard> candidates,
                    const Choice& choice);

// Whether it could fit if every lease were gone, every unmanaged process too and every lost card
// back; else the sentence that says why it never will on this machine.
std::string never_fits(const LeaseRequest& request, std::span<const Card* const> cards);

}  // namespace sluice::broker
