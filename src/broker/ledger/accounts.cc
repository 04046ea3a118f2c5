#include "broker/ledger/accounts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace sluice::broker {

namespace {

constexpr double kForgets = 0.6931471805599453 / 600;  // of a share per second: half in ten minutes
constexpr std::size_t kAgentsToSweep = 4096;

void accrue(Agent& agent, Instant t) {
  agent.share = share_of(agent, t);
  agent.share_at = std::max(agent.share_at, t);
}

// Adds the bytes of every part, or with `is_held` false takes them away.
void count_bytes(const Entry& entry, bool is_held) {
  auto& agent = *entry.agent;
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    const auto card = entry.part_states[i].card;
    const auto bytes = entry.lease.parts[i].bytes;
    const auto add = [&](std::uint64_t& sum) { sum = is_held ? sum + bytes : sum - bytes; };
    add(agent.held);
    if (auto* peer = entry.peer; peer != nullptr) {
      if (peer->on.size() <= card) peer->on.resize(card + 1);
      add(peer->bytes), add(peer->on[card]);
    }
    if (!agent.quota) continue;
    auto& own = agent.held_by[entry.lease.request.peer];
    add(own);
    if (own == 0) agent.held_by.erase(entry.lease.request.peer);
  }
}

std::string broken_agent(const Agent& agent, const LeaseTable& all, Instant policy_at) {
  std::uint64_t held = 0;
  std::size_t leases = 0;
  Instant newest{};
  std::unordered_map<std::string, std::uint64_t> held_by;
  for (const auto& [id, entry] : all.all()) {
    if (entry.agent != &agent) continue;
    ++leases;
    if (!is_held(entry.lease)) continue;
    newest = std::max(newest, entry.lease.granted_at);
    held += promised(entry.lease);
    held_by[entry.lease.request.peer] += promised(entry.lease);
  }
  if (held != agent.held || leases != agent.leases)
    return fmt::format("agent {}: {} held by {} leases, but {} by {} counted", agent.name,
                       human_bytes(held), leases, human_bytes(agent.held), agent.leases);
  if (!agent.quota) return {};
  if (held_by != agent.held_by)
    return fmt::format("agent {}: what it holds of each peer is not counted right", agent.name);
  for (const auto& [peer, bytes] : held_by)
    if (bytes > *agent.quota && newest > policy_at)
      return fmt::format("agent {} of {} holds {}, more than its quota", agent.name, peer,
                         human_bytes(bytes));
  return {};
}

std::string broken_peer(const Peer& peer, const LeaseTable& all) {
  Peer counted;
  for (const auto& [id, entry] : all.all()) {
    if (entry.lease.request.peer != peer.name) continue;
    if (entry.peer != &peer) return on_lease(entry.lease, "is counted for another peer");
    ++counted.of(entry.lease.state);
    if (entry.lease.state != State::draining) ++counted.agents[entry.lease.request.agent];
    if (is_held(entry.lease)) counted.bytes += promised(entry.lease);
  }
  const bool agrees = counted.bytes == peer.bytes && counted.held == peer.held &&
                      counted.waiting == peer.waiting && counted.on_cpu == peer.on_cpu &&
                      counted.draining == peer.draining && counted.agents == peer.agents &&
                      peer.all() > 0;
  return agrees ? "" : fmt::format("peer {}: its leases are not counted right", peer.name);
}

}  // namespace

// Solves share' = held - kForgets * share.
double share_of(const Agent& agent, Instant t) {
  const double level = static_cast<double>(agent.held) / kForgets;
  const double passed = std::max(0.0, seconds_between(agent.share_at, t));
  return level + (agent.share - level) * std::exp(-kForgets * passed);
}

std::size_t& Peer::of(State state) noexcept {
  switch (state) {
    case State::waiting: return waiting;
    case State::on_cpu: return on_cpu;
    case State::draining: return draining;
    default: return held;
  }
}

Agent& Accounts::agent_named(const std::string& name, Instant now) {
  auto [at, is_new] = agents_.try_emplace(name);
  if (is_new) {
    at->second.name = name, at->second.share_at = now;
    set_limits(at->second);
  }
  return at->second;
}

Peer* Accounts::find_peer(const std::string& name) {
  const auto at = peers_.find(name);
  return at == peers_.end() ? nullptr : &at->second;
}

void Accounts::forget_idle_agents(Instant now) {
  if (agents_.size() <= std::max(kAgentsToSweep, 2 * agents_at_sweep_)) return;
  std::erase_if(agents_, [&](const auto& named) {
    return named.second.leases == 0 && !named.second.is_reserved_for &&
           share_of(named.second, now) < 1 << 30;
  });
  agents_at_sweep_ = agents_.size();
}

void Accounts::set_limits(Agent& agent) const {
  const auto quota = policy_.quotas.find(agent.name);
  agent.quota = quota == policy_.quotas.end() ? std::nullopt : std::optional(quota->second);
  agent.is_reserved_for = policy_.reservations.contains(agent.name);
}

void Accounts::apply_policy(const LeaseTable& leases) {
  for (auto& [name, agent] : agents_) set_limits(agent), agent.held_by.clear();
  for (const auto& [id, entry] : leases.all())
    if (entry.agent->quota && is_held(entry.lease))
      entry.agent->held_by[entry.lease.request.peer] += promised(entry.lease);
}

void Accounts::join(Entry& entry, Instant now) {
  const auto& lease = entry.lease;
  entry.agent = &agent_named(lease.request.agent, now);
  ++entry.agent->leases;
  if (lease.request.peer.empty()) return;
  entry.peer = &peers_.try_emplace(lease.request.peer).first->second;
  if (entry.peer->name.empty()) entry.peer->name = lease.request.peer;
  ++entry.peer->of(lease.state);
  if (lease.state != State::draining) ++entry.peer->agents[lease.request.agent];
}

void Accounts::set_state(Entry& entry, State state) {
  const auto before = std::exchange(entry.lease.state, state);
  auto* peer = entry.peer;
  if (peer == nullptr) return;
  const bool was_over = before == State::draining;
  const bool is_over = state == State::draining || state == State::ended;
  --peer->of(before);
  if (state != State::ended) ++peer->of(state);
  if (is_over && !was_over) {
    const auto agent = peer->agents.find(entry.lease.request.agent);
    if (--agent->second == 0) peer->agents.erase(agent);
  }
  if (peer->all() != 0) return;
  entry.peer = nullptr;
  peers_.erase(entry.lease.request.peer);
}

void Accounts::leave(Entry& entry) {
  set_state(entry, State::ended);
  --entry.agent->leases;
}

void Accounts::hold(const Entry& entry) {
  accrue(*entry.agent, entry.lease.granted_at);
  count_bytes(entry, true);
}

void Accounts::give_back(const Entry& entry) {
  accrue(*entry.agent, entry.lease.ended_at);
  count_bytes(entry, false);
}

std::string Accounts::broken_invariant(const LeaseTable& leases, Instant policy_at) const {
  for (const auto& [name, agent] : agents_)
    if (auto problem = broken_agent(agent, leases, policy_at); !problem.empty()) return problem;
  for (const auto& [name, peer] : peers_)
    if (auto problem = broken_peer(peer, leases); !problem.empty()) return problem;
  return {};
}

}  // namespace sluice::broker
