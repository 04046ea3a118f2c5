// One pass over the queue, or one look at a single request: the bytes that are free on each card,
// and which of them are kept from whom. Lives for one call of the ledger; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "broker/ledger/card_table.h"
#include "broker/ledger/reservations.h"
#include "broker/ledger/wait_queue.h"

namespace sluice::broker {

class SchedulingPass {
 public:
  // Capacity is reserved from the beginning for requests that others were asked to yield to.
  SchedulingPass(CardTable& cards, const Reservations& reservations, const WaitQueue& queue,
                 const Policy& policy, Instant now);
  Instant now() const noexcept { return now_; }

  // What is kept. A request claims bytes on its targets once others were asked to yield to it; from
  // keep_for() on, its minimum is kept in full when it waited long enough, or not at all.
  void claim(const Entry& keeper);
  void release_claims(const Entry& keeper);
  void keep_for(const Entry& keeper);
  void keep_for_those_ahead(const Entry& newcomer);

  // Rejects most requests quickly. The agent that capacity is reserved for takes the full check.
  bool may_fit(const Entry& entry) const;
  // One for each card, in the same order.
  std::vector<CandidateCard> candidates_for(const Entry& entry, bool with_reasons) const;
  // Bytes available to `entry` on the card once everything given back has drained.
  std::uint64_t coming_for(const Entry& entry, CardIndex card) const;
  // The cards where the least is missing, of those that could carry it once all leases were gone;
  // empty without enough of them.
  std::vector<CardIndex> targets_for(const Entry& entry) const;

  // Takes in that `entry` was granted this choice, or was told of it.
  void granted(const Entry& entry, const Choice& choice);
  void offered(const Choice& choice);

  // Limits the plans of leases to go, with one for each peer, so that a peer with many waiting
  // requests does not delay the others. Requests that are left out are planned in a later pass.
  bool may_plan(const Entry& entry);

 private:
  void keep(Amounts& as, const Entry& keeper, CardIndex card, std::uint64_t more);
  std::uint64_t kept_from(const Entry& entry, CardIndex card) const;
  void update_most_free();

  CardTable& cards_;
  const Reservations& reservations_;
  const WaitQueue& queue_;
  const Policy& policy_;
  const Instant now_;
  Amounts free_;      // on open cards
  Amounts reserved_;  // for agents, by the settings
  Amounts kept_;      // for requests ahead of the one looked at
  Amounts claimed_;   // for requests that others yield to, wherever they stand
  Amounts of_users_;  // of these two, for requests of others than administrators
  std::map<const Peer*, Amounts> kept_within_;  // for requests ahead, from others of their peer
  std::vector<const Peer*> planned_for_;
  std::uint64_t most_free_ = 0;
};

}  // namespace sluice::broker
