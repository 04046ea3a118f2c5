// Chooses the leases that would have to end for a request: the cheapest set, of the lowest
// priority, then the fewest, then the smallest. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "broker/ledger/card_table.h"
#include "broker/ledger/scheduling_pass.h"

namespace sluice::broker {

struct VictimPlan {
  bool is_feasible = false;
  std::vector<CardIndex> cards;  // as many as the request has GPUs
  std::vector<Entry*> victims;
};

class VictimPlanner {
 public:
  VictimPlanner(const Policy& policy, CardTable& cards) : policy_(policy), cards_(cards) {}

  // Who would have to go, of all leases that are held; or to `ask`, of those of lower priority that
  // may be asked to yield. Looks at a bounded number of leases, so it may find no plan where there
  // is one of very many small leases.
  enum class Of { all, to_ask };
  VictimPlan plan(const Entry& entry, const SchedulingPass& pass, Of of);

 private:
  struct Search;  // for one request
  std::optional<CardIndex> cheapest_card(const Search& search, VictimPlan& plan,
                                         std::size_t& could_do);
  bool may_go(const Victim& victim, const Search& search) const;
  std::vector<Victim> candidates(const CardState& state, std::uint64_t missing,
                                 const Search& search) const;
  bool cover(const CardState& state, std::uint64_t missing, const Search& search,
             std::vector<Entry*>& chosen) const;
  std::uint64_t missing_on(CardIndex card, const Search& search,
                           const std::vector<Entry*>& chosen) const;

  const Policy& policy_;
  CardTable& cards_;
  std::uint64_t plans_ = 0;  // a number for each
};

}  // namespace sluice::broker
