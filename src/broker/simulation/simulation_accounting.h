// The simulation's own record of every lease, derived from what the ledger reports and
// from nothing inside it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.h"

namespace sluice::broker {

class SimulationAccounting {
 public:
  SimulationAccounting(const std::vector<Card>& cards, Seconds longest_wait);

  // Takes in the changes that the ledger reported at `now`. The leases are looked up there.
  void read(const Changes& changes, const Ledger& ledger, Instant now);
  // A sample of the card reached the ledger.
  void sampled(std::size_t card, Instant taken_at);
  // A list reached it, with these unmanaged processes that never had to do with leases.
  void listed(std::size_t card, const std::map<std::int64_t, std::uint64_t>& unmanaged,
              Instant now);
  void unmanaged_left(std::size_t card, std::int64_t pid) { cards_[card].unmanaged.erase(pid); }
  void restarted();  // it knows no list any more
  // The response to a renewal.
  void renewed(LeaseId id, Ledger::Outcome outcome, Instant now);
  // Everything that lives by these books lives there too, and nothing else.
  void compare(const Ledger& ledger);

  bool is_live(LeaseId id) const { return leases_.contains(id); }
  const std::string& broken() const noexcept { return broken_; }
  const std::array<std::vector<float>, 4>& waits() const noexcept { return waits_; }
  std::uint64_t promised() const noexcept;
  std::size_t waiting() const noexcept { return queue_.size(); }

 private:
  struct Row {
    Priority priority;
    Instant requested_at, expires_at;
    bool is_granted = false, is_waiting = false;
    std::vector<std::pair<std::size_t, std::uint64_t>> parts;
  };
  struct GivenBack {
    LeaseId id;
    Instant at;
    std::uint64_t bytes;
  };
  struct UnmanagedProcess {
    std::uint64_t bytes;
    Instant known_since;
  };
  struct Unknown {  // a lease whose process the ledger cannot tell from an unmanaged process
    LeaseId id;
    Instant granted_at;
    std::uint64_t bytes;
  };
  struct CardAccount {
    std::uint64_t total, promised = 0;
    std::vector<GivenBack> given_back;
    std::map<std::int64_t, UnmanagedProcess> unmanaged;  // by pid
    std::vector<Unknown> unknown;                        // in the order they were granted
  };
  static std::uint64_t may_be_unmanaged(const CardAccount& card);

  void breaks(LeaseId id, const char* what);
  void enter(LeaseId id, const Ledger& ledger);
  void granted(LeaseId id, const Ledger& ledger, Instant now);
  void ended(LeaseId id, Instant now);

  Seconds longest_wait_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<CardAccount> cards_;
  std::unordered_map<LeaseId, Row> leases_;  // live: neither ended nor refused
  std::set<std::pair<Instant, LeaseId>> queue_;
  std::array<std::vector<float>, 4> waits_;
  LeaseId last_id_ = 0;
  std::string broken_;
};

}  // namespace sluice::broker
