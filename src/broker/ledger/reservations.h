// Bytes that the settings keep free for an agent, and the cards on which they are kept. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "broker/ledger/accounts.h"
#include "broker/ledger/card_table.h"

namespace sluice::broker {

class Reservations {
 public:
  Reservations(const Policy& policy, CardTable& cards, Accounts& accounts)
      : policy_(policy), cards_(cards), accounts_(accounts) {}

  // To be called when the settings or the cards have changed.
  void plan(Instant now);
  // Bytes reserved on each card for agents other than `except` and not yet held by them.
  Amounts reserved_for(const Agent* except) const;

 private:
  struct Reserved {
    const Agent* agent;
    std::uint64_t bytes;
    std::vector<std::pair<CardIndex, std::uint64_t>> homes;
  };
  Amounts carry_for(const Agent& agent);

  const Policy& policy_;
  CardTable& cards_;
  Accounts& accounts_;
  std::vector<Reserved> reserved_;
};

}  // namespace sluice::broker
