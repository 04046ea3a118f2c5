// The table of leases and cards, and rows of the timeline, as JSON; see docs/leases.md.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/json.h"
#include "broker/broker.h"
#include "broker/sampled_cards.h"
#include "broker/store/store.h"

namespace sluice::broker {

// A page of Broker::leases_json(), copied so that its JSON is made without a lock.
struct LeaseList {
  struct Live {
    Lease lease;
    std::optional<device::Timed> used;
  };
  struct CardView {
    CardSnapshot card_snapshot;
    CardCapacity capacity;
    std::vector<Promise> promises;
  };
  std::vector<Live> leases, on_cpu;
  std::vector<Lease> waiting, recent;
  std::vector<CardView> cards;
  Ledger::Counts counts{};
  LeasePage next;
  Moment at{};
};

// `recent`: the leases that ended, newest last; they and the cards are on the first page only.
LeaseList list_leases(const Ledger& ledger, const SampledCards& cards,
                      const std::deque<Lease>& recent, const LeasePage& page, const Moment& at);
Json to_json(const LeaseList& list);

Json timeline_json(const Store::Past& past, std::int64_t from_ms, std::int64_t to_ms,
                   std::size_t limit, const Moment& at);

}  // namespace sluice::broker
