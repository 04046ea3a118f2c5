// What each agent and each peer has: how many leases, how many bytes, and how much of late. Rules
// about them are in limits.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "broker/ledger/lease_table.h"
#include "broker/ledger/policy.h"

namespace sluice::broker {

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
double share_of(const Agent& agent, Instant t);

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

class Accounts {
 public:
  explicit Accounts(const Policy& policy) : policy_(policy) {}

  // Kept while it has leases or had some of late.
  Agent& agent_named(const std::string& name, Instant now);
  Peer* find_peer(const std::string& name);  // null: it has no leases, or is not known
  // Names come from outside: those who hold nothing and have not for a while are dropped.
  void forget_idle_agents(Instant now);
  // Takes in new quotas and reservations.
  void apply_policy(const LeaseTable& leases);

  // Counts the lease of a new entry, with its agent and its peer.
  void join(Entry& entry, Instant now);
  // Every change of state but that between held and yielding, which count as one.
  void set_state(Entry& entry, State state);
  void leave(Entry& entry);  // sets State::ended; its peer may be gone then
  // The parts of the lease, as of granted_at and as of ended_at.
  void hold(const Entry& entry);
  void give_back(const Entry& entry);

  // Quotas of before `policy_at` may be exceeded.
  std::string broken_invariant(const LeaseTable& leases, Instant policy_at) const;

 private:
  void set_limits(Agent& agent) const;

  const Policy& policy_;
  std::unordered_map<std::string, Agent> agents_;
  std::unordered_map<std::string, Peer> peers_;  // that have leases
  std::size_t agents_at_sweep_ = 0;
};

}  // namespace sluice::broker
