// Placement of a lease: a pure function of the request and of what is free.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "broker/lease/card.h"
#include "broker/lease/lease.h"
#include "broker/ledger/card_load.h"

namespace sluice::broker {

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
// As much of `bytes` as can be had down to min_bytes, the same on each GPU. Of the GPUs that have
// that much, preferred in this order:
//   1. with `linked`, a set in which all reach each other by NVLink; the search for one gives up
//      after 20,000 steps, and without such a set the next rules choose
//   2. those of the node `numa_node`
//   3. by `placement`: where the least (best fit) or the most (spread) is free
//   4. the lower bus, so that the response is the same every time.
Choice choose(const LeaseRequest& request, std::span<const CandidateCard> candidates);

// A card that `request` may use and that has too little free memory now.
struct Obstacle {
  std::string uuid, bus, name;
  std::uint64_t free = 0, kept = 0;  // bytes; `kept` of `free` for others
  std::string why;                   // why nothing may be promised there; empty: too little is free
};
std::vector<Obstacle> obstacles(const LeaseRequest& request,
                                std::span<const CandidateCard> candidates);

// Why these, or what stands in the way on the best card.
std::string explain(const LeaseRequest& request, std::span<const CandidateCard> candidates,
                    const Choice& choice);

// Whether it could fit if every lease were gone, every unmanaged process too and every lost card
// back; else the sentence that says why it never will on this machine.
std::string never_fits(const LeaseRequest& request, std::span<const Card* const> cards);

}  // namespace sluice::broker
