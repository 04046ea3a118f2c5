// The implementation of Ledger. Included by ledger*.cc only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.h"

namespace sluice::broker {

using CardIndex = std::uint32_t;
using Amounts = std::vector<std::uint64_t>;  // bytes, by CardIndex

struct Agent {
  std::string name;
  std::uint64_t held = 0;  // bytes of leases held or yielding
  double share = 0;        // byte-seconds held of late, as of share_at
  Instant share_at{};
  std::size_t leases = 0;  // live ones
  std::optional<std::uint64_t> quota;
  std::unordered_map<std::string, std::uint64_t> held_by;  // `held` by peer, of one with a quota
  bool is_reserved_for = false;  // capacity is kept for it by the settings
};

// A client that requests leases, and how many it has.
struct Peer {
  std::string name;
  std::uint64_t bytes = 0;  // of leases held or yielding
  Amounts on;               // the same by card
  std::size_t held = 0, waiting = 0, on_cpu = 0, draining = 0;
  std::unordered_map<std::string, std::size_t> agents;  // held, waiting and on the CPU, by name

  std::size_t& of(State state) noexcept;
  std::size_t all() const noexcept { return held + waiting + on_cpu + draining; }
};

// One part of a lease on its card.
struct PartState {
  CardIndex card;
  std::size_t index = 0;     // in the card's promises, while it counts
  bool counts = true;        // of a lease given back: until a sample was taken later
  bool is_reported = false;  // Change::drained
  std::uint64_t over = 0;    // bytes past the promise; above 0: Change::over_use was reported
};

struct Entry {
  Lease lease;
  Agent* agent = nullptr;
  Peer* peer = nullptr;                 // null: not known
  unsigned requesters = 1;              // requests that are answered with it; see add_retry()
  std::vector<PartState> part_states;   // beside lease.parts
  Instant watched_at = Instant::max();  // its place among the deadlines
  Instant seen_free_at{};               // of one given back: on the cards reported so far

  // While it waits.
  std::int64_t step = 0;           // lower goes first
  bool is_holding = false;         // waited longer than hold_after
  bool is_kept_from_all = true;    // what is kept for it; false: from requests of its own peer only
  bool is_keeper = false;          // among the keepers
  std::vector<CardIndex> targets;  // where capacity is kept for it
  Amounts claimed;                 // beside targets, once others were asked to yield to it
  std::vector<LeaseId> pending_yields;   // leases that have yet to yield to it
  std::unordered_set<LeaseId> declined;  // those that did not in time
  Instant next_yield_request_at{};
  std::uint64_t planned_in = 0;    // of one that is held: the last plan in which it is to go
  bool capacity_reported = false;  // Change::capacity, for one that is on_cpu
};

// Leases held on a card, the ones that should go first in front.
struct Victim {
  Priority priority;
  std::uint64_t bytes;
  LeaseId id;
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
  std::vector<LeaseId> unlisted;  // given back and confirmed; the process list is older
  std::set<Victim> victims;
  std::uint64_t draining = 0;  // of promises: given back, not yet confirmed
  std::uint64_t changes = 0;   // promises that came or were given back
  Load load;
  bool is_load_known = false;
  std::shared_ptr<const InUse> before;  // of the promises made since the last sample
};

struct Reserved {
  Agent* agent;
  std::uint64_t bytes;
  std::vector<std::pair<CardIndex, std::uint64_t>> homes;
};

struct QueueKey {
  std::int64_t step;
  Instant requested_at;
  LeaseId id;
  friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
};
using Queue = std::map<QueueKey, Entry*>;

struct HolderHash {
  std::size_t operator()(const std::pair<std::int64_t, std::uint64_t>& h) const noexcept {
    return std::hash<std::uint64_t>()(static_cast<std::uint64_t>(h.first) * 0x9E3779B97F4A7C15u ^
                                      h.second);
  }
};

// One pass over the queue: free bytes by card, and the bytes held back from each request.
struct SchedulingPass {
  Amounts free;      // on open cards
  Amounts reserved;  // for agents, by the settings
  Amounts kept;      // for requests ahead of the one looked at
  Amounts claimed;   // for requests that others yield to, wherever they stand
  Amounts of_users;  // of these two, for requests of others than administrators
  std::map<const Peer*, Amounts> kept_within;  // for requests ahead, from others of their peer
  std::vector<const Peer*> planned_for;        // whose requests looked for others that could yield
  std::uint64_t most_free = 0;
};

// The time for which capacity was kept for the requests of a peer.
struct HoldBudget {
  double used_s = 0;  // of Policy::hold_for; comes back while none is kept
  Instant as_of{};
  bool is_kept = false, is_spent = false;
};

struct VictimPlan {
  bool is_feasible = false;
  std::vector<CardIndex> cards;
  std::vector<Entry*> victims;
};

struct Ledger::Impl {
  explicit Impl(Policy p) : policy(std::move(p)) {}

  // ledger.cc
  void begin(Instant t);
  Agent& agent_named(const std::string& name);
  void accrue(Agent& agent, Instant t);
  double share_of(const Agent& agent, Instant t) const;
  Entry& enter(Lease lease);
  void end(Entry& entry, EndReason ending, std::string reason, Changes& changes);
  void finish(Entry& entry);
  void forget_agents();
  void expire(Entry& entry, Changes& changes);
  void due(Entry& entry, Changes& changes);
  void watch_deadline(Entry& entry);
  void sweep_deadlines();
  void give_time(Lease& lease) const;
  Outcome judge(LeaseId id, const std::uint64_t* secret, Instant came, Entry*& found,
                Changes& changes);
  Changes end_all(std::vector<LeaseId> ids, EndReason ending, const std::string& reason);
  Decision ask(const LeaseRequest& request, std::uint64_t secret, Changes& changes);
  Decision reject(Entry& entry, Refusal refusal, Changes& changes);
  Decision defer(Entry& entry, SchedulingPass& pass, Refusal refusal, Changes& changes);

  // ledger_limits.cc
  const Peer* find_peer(const std::string& name) const;
  Peer* peer_named(const std::string& name);  // null: it has no leases, or is not known
  void check_limits(const LeaseRequest& request) const;
  void check_may_wait(const LeaseRequest& request) const;
  void check_may_use_cpu(const LeaseRequest& request) const;
  void join_peer(Entry& entry);
  void leave_key(const Entry& entry);
  void set_state(Entry& entry, State state);
  void count_bytes(const Entry& entry, CardIndex card, std::uint64_t bytes, bool is_held);
  bool is_behind_its_own(const Entry& entry) const;
  std::uint64_t own_blocking(const Entry& entry, CardIndex card) const;
  HoldBudget* hold_budget_of(const Entry& entry);
  void forget_hold_budgets();
  bool may_hold_capacity(const Entry& entry);
  void note_kept(const Entry& entry);
  std::uint64_t quota_used(const Entry& entry) const;
  std::uint64_t peer_bytes(const LeaseRequest& request) const;
  std::optional<std::uint64_t> quota_left(const Entry& entry) const;
  std::string why_over_quota(const LeaseRequest& request) const;
  std::string quota_text(const Entry& entry) const;
  Refusal over_quota(const Entry& entry) const;

  // ledger_cards.cc
  CardIndex card_named(const std::string& uuid);
  const CardState* find_card(const std::string& uuid) const;
  void observe_one(const Card& card, Changes& changes);
  void sampled(CardIndex index, bool is_new_list, Changes& changes);
  void confirm_returns(CardIndex index, Changes& changes);
  void report_returns(CardIndex index, Changes& changes);
  void report_return(Entry& entry, CardIndex index, Changes& changes);
  void judge_use(CardState& state, Changes& changes);
  void judge_part(Entry& owner, const CardState& state, const HolderUse& use, Changes& changes);
  void report_usable(CardState& state, Changes& changes);
  void add_promise(Entry& entry, CardIndex card, std::uint64_t bytes);
  void remove_promise(CardState& state, std::size_t index);
  const Load& load(CardState& state);
  std::uint64_t free_on(CardState& state);

  // ledger_restore.cc
  void plan_reservations();
  Amounts carry_for(const Agent& agent);
  Amounts reserved_for(const Agent* except) const;
  void set_limits(Agent& agent) const;

  // ledger_queue.cc
  void enqueue(Entry& entry);
  void dequeue(Entry& entry);
  void set_step(Entry& entry) const;
  void restep();
  std::string why_never(const LeaseRequest& request) const;
  SchedulingPass begin_pass();
  static void keep(SchedulingPass& pass, Amounts SchedulingPass::*as, const Entry& keeper,
                   CardIndex card, std::int64_t bytes);
  void release_claims(const Entry& keeper, SchedulingPass& pass) const;
  void keep_for(const Entry& keeper, SchedulingPass& pass) const;
  bool is_ahead(const Entry& keeper, const Entry& newcomer) const;
  void keep_for_those_ahead(const Entry& newcomer, SchedulingPass& pass) const;
  std::uint64_t kept_on(CardIndex card, const Entry& entry, const SchedulingPass& pass) const;
  bool may_fit(const Entry& entry, const SchedulingPass& pass) const;
  std::vector<CandidateCard> candidates_for(const Entry& entry, const SchedulingPass& pass,
                                            bool with_reasons);
  Choice choose_for(const Entry& entry, std::span<const CandidateCard> candidates) const;
  bool try_grant(Entry& entry, SchedulingPass& pass, Changes& changes);
  void grant(Entry& entry, const Choice& choice, std::span<const CandidateCard> candidates,
             Changes& changes);
  bool are_good_targets(const Entry& entry) const;
  void choose_targets(Entry& entry, const SchedulingPass& pass);
  std::vector<Entry*> in_order(Instant t) const;
  void hold_capacity(Entry& entry, SchedulingPass& pass, Changes& changes);
  void serve(Changes& changes);
  void serve_if_needed(Changes& changes);
  void report_capacity(SchedulingPass& pass, Changes& changes);

  // ledger_yield.cc
  VictimPlan plan_victims(const Entry& entry, const SchedulingPass& pass, bool to_ask);
  std::optional<CardIndex> cheapest_card(const Entry& entry, const SchedulingPass& pass,
                                         bool to_ask, VictimPlan& plan, std::size_t& could_do);
  bool may_plan(const Entry& entry, SchedulingPass& pass);
  bool may_ask(const LeaseRequest& requester, const LeaseRequest& holder) const;
  bool may_go(const Victim& victim, const Entry& entry, bool to_ask) const;
  std::vector<Victim> victim_candidates(const CardState& state, const Entry& entry,
                                        std::uint64_t missing, bool to_ask);
  bool cover(const Entry& entry, const CardState& state, std::uint64_t missing, bool to_ask,
             std::vector<Entry*>& chosen);
  std::uint64_t have_on(const Entry& entry, CardIndex card, const SchedulingPass& pass) const;
  std::uint64_t missing_on(const Entry& entry, CardIndex card, const SchedulingPass& pass,
                           const std::vector<Entry*>& chosen);
  void ask_to_yield(Entry& entry, SchedulingPass& pass, Changes& changes);
  void yielded(Entry& yielder);
  void make_keeper(Entry& entry);
  void join_yield(Entry& yielder);
  void stop_yielding(Entry& yielder);
  void withdraw_asks(Entry& entry, Changes& changes);
  void yield_is_overdue(Entry& entry, Changes& changes);
  Refusal refusal_for(const Entry& entry, const SchedulingPass& pass);
  std::string reason_for(const Entry& entry, const SchedulingPass& pass);

  Policy policy;
  Instant now{};
  Instant ticked_at{};
  Instant policy_at{};
  LeaseId last_id = 0;
  bool has_all = false;              // cards were observed, and all there are
  std::size_t returns_reported = 0;  // in this call
  bool has_returns = false;          // more may be due than one call reports
  bool must_serve = false;           // something ended that kept others waiting
  bool is_paused = false;            // nothing can be stored
  bool plan_again = false;           // the reservations: a card came, went or changed its size

  std::unordered_map<LeaseId, Entry> entries;
  std::map<LeaseId, std::unordered_map<LeaseId, Entry>::node_type> just_ended;
  std::unordered_map<std::string, Agent> agents;
  std::unordered_map<std::string, Peer> peers;               // that have leases
  std::unordered_map<std::string, HoldBudget> hold_budgets;  // by peer
  std::uint64_t plans = 0;                                   // of leases to go; a number for each
  std::size_t agents_at_sweep = 0;
  std::deque<CardState> cards;
  std::unordered_map<std::string, CardIndex> card_index;
  std::vector<const Card*> seen;
  std::vector<Reserved> reserved;
  Queue queue;                  // State::waiting
  Queue on_cpu;                 // State::on_cpu
  std::vector<Entry*> keepers;  // of the queue, for whom capacity is kept
  using Deadline = std::pair<Instant, LeaseId>;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines;
  std::unordered_map<std::string, LeaseId> by_key;  // of leases in force; see keyed_by()
  std::unordered_map<std::uint64_t, std::vector<LeaseId>> by_connection;
  std::unordered_map<std::pair<std::int64_t, std::uint64_t>, std::vector<LeaseId>, HolderHash>
      by_holder;
};

inline bool is_held(const Lease& lease) noexcept {
  return lease.state == State::held || lease.state == State::yielding;
}
inline Instant later(Instant from, Seconds by) {
  return from + std::chrono::duration_cast<Steady::duration>(by);
}
// The time of its next automatic change.
inline Instant deadline_of(const Lease& lease) noexcept {
  if (lease.state == State::draining || lease.state == State::ended) return Instant::max();
  return lease.state == State::yielding ? std::min(lease.yield_by, lease.expires_at)
                                        : lease.expires_at;
}
template <class T>
void drop(std::vector<T>& from, const T& value) {
  std::erase(from, value);
}

// Removes `id` from an index of several leases for each key.
template <class Index, class Key>
void drop_from(Index& index, const Key& key, LeaseId id) {
  const auto at = index.find(key);
  if (at == index.end()) return;
  drop(at->second, id);
  if (at->second.empty()) index.erase(at);
}

}  // namespace sluice::broker
