// Ledger::broken_invariant: everything the ledger keeps, worked out again from the
// leases alone.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

using Impl = Ledger::Impl;

std::string on_lease(const Lease& lease, std::string_view problem) {
  return fmt::format("lease {} ({}): {}", lease.id, to_string(lease.state), problem);
}

std::string broken_parts(const Lease& lease) {
  if (lease.state == State::waiting || lease.state == State::on_cpu)
    return lease.parts.empty() ? "" : on_lease(lease, "holds memory before it was granted");
  if (lease.parts.size() != lease.request.gpus)
    return on_lease(lease, "is not on as many GPUs as requested");
  std::set<std::string> uuids;
  for (const auto& part : lease.parts) {
    if (part.bytes > lease.request.bytes || part.bytes < min_bytes_per_gpu(lease.request))
      return on_lease(lease, "has more or less memory than requested");
    if (part.bytes != lease.parts.front().bytes) return on_lease(lease, "has unlike parts");
    if (!uuids.insert(part.uuid).second) return on_lease(lease, "has two parts on one GPU");
  }
  return {};
}

std::string broken_ending(const Lease& lease, const Impl& in) {
  const bool is_back = lease.state == State::draining;
  if (lease.state == State::ended) return on_lease(lease, "is over and still listed");
  if (is_back != (lease.ending != EndReason::none))
    return on_lease(lease, "is over and is not, by its state and its ending");
  if (!is_back && lease.expires_at <= in.ticked_at)
    return on_lease(lease, "is past its time and lives");
  if (lease.id == 0 || lease.id > in.last_id) return on_lease(lease, "has an unknown number");
  return {};
}

std::string broken_yield(const Entry& entry, const Impl& in) {
  const auto& lease = entry.lease;
  for (const auto id : entry.pending_yields) {
    const auto at = in.entries.find(id);
    if (at == in.entries.end() || at->second.lease.state != State::yielding ||
        at->second.lease.yields_to != lease.id)
      return on_lease(lease, "waits for one that does not yield to it");
  }
  if (!entry.claimed.empty() && entry.claimed.size() != entry.targets.size())
    return on_lease(lease, "claims capacity on other cards than its own");
  if (entry.is_keeper != (std::ranges::count(in.keepers, &entry) == 1))
    return on_lease(lease, "is kept capacity for and is not");
  if (lease.state != State::yielding) return {};
  const auto at = in.entries.find(lease.yields_to);
  if (at == in.entries.end() || at->second.lease.state != State::waiting)
    return on_lease(lease, "yields to one that does not wait");
  if (at->second.lease.request.priority <= lease.request.priority)
    return on_lease(lease, "yields to one of no higher priority");
  if (std::ranges::count(at->second.pending_yields, lease.id) != 1)
    return on_lease(lease, "yields to a request that did not ask it to");
  return {};
}

std::string broken_lists(const Entry& entry, const Impl& in) {
  const auto& lease = entry.lease;
  const QueueKey key{entry.step, lease.requested_at, lease.id};
  if (in.queue.contains(key) != (lease.state == State::waiting))
    return on_lease(lease, "waits and is not in the queue, or is and does not");
  if (in.on_cpu.contains(key) != (lease.state == State::on_cpu))
    return on_lease(lease, "is on the CPU and not listed so, or is and is not");
  if (deadline_of(lease) < entry.watched_at) return on_lease(lease, "has an unwatched deadline");
  if (entry.part_states.size() != lease.parts.size()) return on_lease(lease, "has lost a part");
  for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
    const auto& part_state = entry.part_states[i];
    const auto& state = in.cards[part_state.card];
    if (state.card.uuid != lease.parts[i].uuid) return on_lease(lease, "sits on another card");
    if (!part_state.counts) {
      if (is_held(lease)) return on_lease(lease, "is held and does not count");
      continue;
    }
    if (part_state.index >= state.promises.size() || state.owners[part_state.index] != &entry ||
        state.promises[part_state.index].lease != lease.id ||
        state.promises[part_state.index].bytes != lease.parts[i].bytes)
      return on_lease(lease, "does not count where it sits");
  }
  return {};
}

std::string broken_card(const CardState& state, const Impl& in) {
  std::uint64_t promised = 0, draining = 0;
  std::size_t count = 0, held = 0;
  for (const auto& [id, entry] : in.entries)
    for (std::size_t i = 0; i < entry.part_states.size(); ++i) {
      if (&in.cards[entry.part_states[i].card] != &state || !entry.part_states[i].counts) continue;
      ++count;
      promised += entry.lease.parts[i].bytes;
      if (is_held(entry.lease)) ++held;
      if (entry.lease.state == State::draining) draining += entry.lease.parts[i].bytes;
    }
  const auto on_card = [&](std::string_view problem) {
    return fmt::format("{}: {}", state.card.uuid, problem);
  };
  if (count != state.promises.size()) return on_card("counts promises of no lease");
  if (held != state.victims.size()) return on_card("lists other leases than are held");
  if (draining != state.draining) return on_card("has a wrong sum of what drains");
  if (state.is_seen && promised > state.card.total && !state.has_shrunk)
    return on_card(
        fmt::format("{} promised of {}", human_bytes(promised), human_bytes(state.card.total)));
  const auto load = load_on(state.card, state.promises);
  if (load.promised != promised) return on_card("does not count what was promised");
  if (state.is_load_known && load.taken != state.load.taken)
    return on_card("remembers another load than it has");
  return {};
}

std::string broken_agent(const Agent& agent, const Impl& in) {
  std::uint64_t held = 0;
  std::size_t leases = 0;
  Instant newest{};
  std::unordered_map<std::string, std::uint64_t> held_by;
  for (const auto& [id, entry] : in.entries) {
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
    if (bytes > *agent.quota && newest > in.policy_at)
      return fmt::format("agent {} of {} holds {}, more than its quota", agent.name, peer,
                         human_bytes(bytes));
  return {};
}

std::string broken_peer(const Peer& peer, const Impl& in) {
  Peer counted;
  for (const auto& [id, entry] : in.entries) {
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

std::string Ledger::broken_invariant() const {
  const auto& in = *impl_;
  for (const auto& [id, entry] : in.entries) {
    if (id != entry.lease.id) return fmt::format("lease {} is listed as {}", entry.lease.id, id);
    for (auto problem : {broken_parts(entry.lease), broken_ending(entry.lease, in),
                         broken_yield(entry, in), broken_lists(entry, in)})
      if (!problem.empty()) return problem;
  }
  if (in.queue.size() + in.on_cpu.size() > in.entries.size()) return "the queue has ghosts";
  for (const auto* keeper : in.keepers)
    if (keeper->lease.state != State::waiting) return "capacity is kept for one that does not wait";
  for (const auto& state : in.cards)
    if (auto problem = broken_card(state, in); !problem.empty()) return problem;
  for (const auto& [name, agent] : in.agents)
    if (auto problem = broken_agent(agent, in); !problem.empty()) return problem;
  for (const auto& [key, id] : in.by_key) {
    const auto at = in.entries.find(id);
    if (at == in.entries.end() || at->second.lease.state == State::draining)
      return fmt::format("a key is kept for lease {}, which is over", id);
  }
  for (const auto& [name, peer] : in.peers)
    if (auto problem = broken_peer(peer, in); !problem.empty()) return problem;
  return {};
}

}  // namespace sluice::broker
