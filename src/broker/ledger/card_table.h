// The GPUs as the ledger knows them: their samples, the promises on each, the returns that samples
// confirm, and over-use. Not thread-safe.
//
// Entries belong to the LeaseTable; one with promises here stays there until report_returns or
// observe() has named it as over.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/ledger/change.h"
#include "broker/ledger/lease_table.h"
#include "broker/ledger/placement.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

// Leases held on a card, the ones that should go first in front.
struct Victim {
  Priority priority;
  std::uint64_t bytes;
  LeaseId id;
  Entry* entry = nullptr;
  friend bool operator<(const Victim& a, const Victim& b) noexcept {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.id > b.id;
  }
};

struct CardState {
  Card card;
  bool is_seen = false;           // false: only a restored lease names it
  bool was_usable = true;         // as its leases know it
  bool has_shrunk = false;        // total fell below what was promised already
  std::vector<Promise> promises;  // that count
  std::vector<Entry*> owners;     // beside promises
  std::vector<Entry*> unlisted;   // given back and confirmed; the process list is older
  std::set<Victim> victims;
  std::uint64_t draining = 0;  // of promises: given back, not yet confirmed
  std::uint64_t changes = 0;   // promises that came or were given back
  Load load;
  bool is_load_known = false;
  std::shared_ptr<const InUse> before;  // of the promises made since the last sample

  // It was seen, works, and is chosen for work.
  bool may_carry() const noexcept { return is_seen && card.usable && !card.excluded; }
};

class CardTable {
 public:
  explicit CardTable(const Policy& policy) : policy_(policy) {}

  CardIndex size() const noexcept { return static_cast<CardIndex>(cards_.size()); }
  const CardState& operator[](CardIndex card) const { return cards_[card]; }
  const CardState* find(const std::string& uuid) const;  // null: never named
  // A new one is not seen yet: only a restored lease names it.
  CardIndex index_of(const std::string& uuid);

  // Computed once for each sample and change of promises.
  const Load& load(CardIndex card);
  std::uint64_t free_on(CardIndex card, Instant now);  // 0 on a closed card
  // Why it fits on no set of the cards; empty while other cards are still to come.
  std::string why_never(const LeaseRequest& request) const;
  // See Ledger::leased().
  std::map<std::string, std::uint64_t> leased() const;

  void add_promise(Entry& entry, CardIndex card, std::uint64_t bytes);
  // All parts of a lease, at its ended_at. They count until samples confirm the return.
  void give_back(const Entry& entry);

  using Entries = std::vector<Entry*>;
  // A call of the ledger begins, which may report so many returns: their owner stores them.
  void begin_call() noexcept { returns_reported_ = 0; }
  void set_has_all(bool has_all) noexcept { has_all_ = has_all; }
  // Takes in a sample, unless a later one is known. Returns the leases that are back on all their
  // cards: the caller ends them.
  Entries observe(const Card& card, Instant now, Changes& changes);
  // More returns may be due than one call reports; the next slice, as observe() otherwise.
  bool has_more_returns() const noexcept { return has_more_returns_; }
  Entries report_more_returns(Instant now, Changes& changes);

  std::string broken_invariant(const LeaseTable& leases) const;

 private:
  void remove_promise(CardState& state, std::size_t index);
  void confirm_returns(CardIndex card);
  void report_returns(CardIndex card, Instant now, Entries& over, Changes& changes);
  bool report_return(Entry& entry, CardIndex card, Instant now, Changes& changes);
  bool take_in(CardState& state, const Card& card);
  void judge_use(CardState& state, Changes& changes);
  void judge_part(Entry& owner, const CardState& state, const HolderUse& use, Changes& changes);
  void report_usable(CardState& state, Instant now, Changes& changes);
  std::string broken_card(const CardState& state, const LeaseTable& leases) const;
  std::string broken_parts_of(const Entry& entry) const;

  const Policy& policy_;
  std::deque<CardState> cards_;
  std::unordered_map<std::string, CardIndex> index_;
  std::vector<const Card*> seen_;
  bool has_all_ = false;  // cards were observed, and all there are
  std::size_t returns_reported_ = 0;
  bool has_more_returns_ = false;
};

}  // namespace sluice::broker
