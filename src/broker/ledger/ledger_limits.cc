// Whose a lease is: how many a peer may have, and its keys. Each has room of its own, so that one
// which takes all it can leaves the others theirs; what is near the limits of all is for those who
// have little.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "broker/lease/idempotency.h"
#include "broker/ledger/ledger_state.h"

namespace sluice::broker {

namespace {

// Past three quarters of what can be kept of all, only those who have fewer than this get more.
constexpr std::size_t kFewLeases = 16, kFewWaiting = 4;
constexpr std::string_view kQuotas = "broker.quotas_gb", kPeerBytes = "broker.max_gb_per_peer";
constexpr std::size_t kKeepingsToSweep = 1024;
constexpr double kComesBack = 4;         // seconds without, for one with room that is kept
constexpr std::size_t kPeersToFill = 4;  // a peer's returns may not fill the ledger, either

std::size_t three_quarters(std::size_t n) { return n - n / 4; }

[[noreturn]] void refuse(std::string text) { throw Error(Code::exhausted, std::move(text)); }

// `most` of all, of which the last quarter is for peers that have `few`.
bool is_full(std::size_t all, std::size_t most, const Peer* peer, std::size_t own,
             std::size_t few) {
  return all >= most || (peer != nullptr && own >= few && all >= three_quarters(most));
}

// What it is over is the quota of its agent, not the limit of its peer.
bool is_over_agents(const Ledger::Impl& in, const Entry& entry) {
  const auto& wanted = entry.lease.wanted;
  return entry.agent->quota &&
         in.quota_used(entry) + least_bytes(wanted) * wanted.gpus > *entry.agent->quota;
}

// Keys belong to their peer.
std::string keyed_by(const Wanted& wanted) {
  return wanted.peer + '\n' + std::string(client_key(wanted.idempotency_key));
}

}  // namespace

std::size_t& Peer::of(State state) noexcept {
  switch (state) {
    case State::waiting: return waiting;
    case State::on_cpu: return on_cpu;
    case State::draining: return draining;
    default: return held;
  }
}

const Peer* Ledger::Impl::find_peer(const std::string& name) const {
  const auto at = peers.find(name);
  return at == peers.end() ? nullptr : &at->second;
}

Peer* Ledger::Impl::peer_named(const std::string& name) {
  const auto at = peers.find(name);
  return at == peers.end() ? nullptr : &at->second;
}

void Ledger::Impl::check_limits(const Wanted& wanted) const {
  const auto* peer = wanted.peer.empty() ? nullptr : find_peer(wanted.peer);
  if (is_full(entries.size(), policy.max_leases, peer, peer ? peer->all() : 0, kFewLeases))
    refuse(fmt::format("{} leases are in use; no more can be kept", entries.size()));
  if (peer == nullptr) return;
  if (peer->held + peer->waiting >= policy.max_leases_per_peer)
    refuse(
        fmt::format("{} holds or waits for {} leases, as many as broker.max_leases_per_peer "
                    "allows: release one first",
                    peer->name, peer->held + peer->waiting));
  if (peer->all() >= policy.max_leases / kPeersToFill)
    refuse(
        fmt::format("{} leases of {} are in use or were just given back; ask again when a "
                    "sample has shown the memory free",
                    peer->all(), peer->name));
  const auto agent = peer->agents.find(wanted.agent);
  if (agent != peer->agents.end() && agent->second >= policy.max_leases_per_agent)
    refuse(
        fmt::format("agent {} of {} has {} leases, as many as broker.max_leases_per_agent "
                    "allows: release one first",
                    wanted.agent, peer->name, agent->second));
}

void Ledger::Impl::check_may_wait(const Wanted& wanted) const {
  const auto* peer = wanted.peer.empty() ? nullptr : find_peer(wanted.peer);
  const auto own = peer == nullptr ? 0 : peer->waiting;
  if (is_full(queue.size(), policy.max_waiting, peer, own, kFewWaiting))
    refuse(fmt::format("{} requests wait already; ask later", queue.size()));
  if (peer != nullptr && own >= policy.max_waiting_per_peer)
    refuse(
        fmt::format("{} requests of {} wait already, as many as broker.max_waiting_per_peer "
                    "allows; ask later",
                    own, peer->name));
}

void Ledger::Impl::check_may_use_cpu(const Wanted& wanted) const {
  const auto* peer = wanted.peer.empty() ? nullptr : find_peer(wanted.peer);
  if (peer != nullptr && peer->on_cpu >= policy.max_cpu_leases_per_peer)
    refuse(
        fmt::format("{} has {} leases on the CPU, as many as broker.max_cpu_leases_per_peer "
                    "allows; they end {} s after their last renewal",
                    peer->name, peer->on_cpu, policy.cpu_ttl.count()));
}

void Ledger::Impl::leave_key(const Entry& entry) {
  const auto& wanted = entry.lease.wanted;
  if (wanted.idempotency_key.empty()) return;
  const auto at = by_key.find(keyed_by(wanted));
  if (at != by_key.end() && at->second == entry.lease.id) by_key.erase(at);
}

const Lease* Ledger::asked_before(const Wanted& wanted) const {
  if (wanted.idempotency_key.empty()) return nullptr;
  const auto at = impl_->by_key.find(keyed_by(wanted));
  return at == impl_->by_key.end() ? nullptr : &impl_->entries.at(at->second).lease;
}

void Ledger::ask_again(LeaseId id, std::uint64_t connection) {
  auto& entry = impl_->entries.at(id);
  ++entry.askers;
  auto& bound_to = entry.lease.wanted.holder.connection;
  if (connection == 0 || connection == bound_to) return;
  if (bound_to != 0) drop_from(impl_->by_connection, bound_to, id);
  bound_to = connection;
  entry.lease.wanted.bound = true;  // a restart may have cut it off from the one before
  impl_->by_connection[connection].push_back(id);
}

void Ledger::Impl::join_peer(Entry& entry) {
  const auto& lease = entry.lease;
  if (!lease.wanted.idempotency_key.empty() && lease.state != State::draining)
    by_key[keyed_by(lease.wanted)] = lease.id;
  if (lease.wanted.peer.empty()) return;
  entry.peer = &peers.try_emplace(lease.wanted.peer).first->second;
  if (entry.peer->name.empty()) entry.peer->name = lease.wanted.peer;
  ++entry.peer->of(lease.state);
  if (lease.state != State::draining) ++entry.peer->agents[lease.wanted.agent];
}

// Every change of state but that between held and yielding, which count as one.
void Ledger::Impl::set_state(Entry& entry, State state) {
  const auto before = std::exchange(entry.lease.state, state);
  auto* peer = entry.peer;
  if (peer == nullptr) return;
  const bool was_over = before == State::draining;
  const bool is_over = state == State::draining || state == State::ended;
  --peer->of(before);
  if (state != State::ended) ++peer->of(state);
  if (is_over && !was_over) {
    const auto agent = peer->agents.find(entry.lease.wanted.agent);
    if (--agent->second == 0) peer->agents.erase(agent);
  }
  if (peer->all() != 0) return;
  entry.peer = nullptr;
  peers.erase(entry.lease.wanted.peer);
}

// ---- memory

void Ledger::Impl::count_bytes(const Entry& entry, CardIndex card, std::uint64_t bytes,
                               bool is_held) {
  const auto add = [&](std::uint64_t& sum) { sum = is_held ? sum + bytes : sum - bytes; };
  add(entry.agent->held);
  if (auto* peer = entry.peer; peer != nullptr) {
    if (peer->on.size() <= card) peer->on.resize(card + 1);
    add(peer->bytes), add(peer->on[card]);
  }
  if (!entry.agent->quota) return;
  auto& own = entry.agent->held_by[entry.lease.wanted.peer];
  add(own);
  if (own == 0) entry.agent->held_by.erase(entry.lease.wanted.peer);
}

std::uint64_t Ledger::Impl::quota_used(const Entry& entry) const {
  const auto own = entry.agent->held_by.find(entry.lease.wanted.peer);
  return own == entry.agent->held_by.end() ? 0 : own->second;
}

std::uint64_t Ledger::Impl::peer_bytes(const Wanted& wanted) const {
  const auto* peer = find_peer(wanted.peer);
  return peer == nullptr ? 0 : peer->bytes;
}

// On each of its GPUs; nothing when there is no limit.
std::optional<std::uint64_t> Ledger::Impl::quota_left(const Entry& entry) const {
  const auto& wanted = entry.lease.wanted;
  std::optional<std::uint64_t> left;
  const auto limit = [&](std::uint64_t most, std::uint64_t used) {
    const auto rest = most - std::min(most, used);
    left = std::min(left.value_or(rest), rest);
  };
  if (entry.agent->quota) limit(*entry.agent->quota, quota_used(entry));
  if (policy.max_bytes_per_peer > 0 && !wanted.peer.empty())
    limit(policy.max_bytes_per_peer, peer_bytes(wanted));
  if (left) *left /= wanted.gpus;
  return left;
}

// Where it could not even hold this alone; else empty.
std::string Ledger::Impl::why_over_quota(const Wanted& wanted) const {
  const auto least = least_bytes(wanted);
  const auto refusal = [&](const std::string& who, std::uint64_t most, std::string_view setting) {
    return fmt::format("{} wanted, but {} may hold {} at once ({})",
                       wanted.gpus == 1
                           ? human_bytes(least)
                           : fmt::format("{} times {}", wanted.gpus, human_bytes(least)),
                       who, human_bytes(most), setting);
  };
  if (!policy.quotas.empty())
    if (const auto quota = policy.quotas.find(wanted.agent);
        quota != policy.quotas.end() && quota->second / wanted.gpus < least)
      return refusal(wanted.agent, quota->second, kQuotas);
  if (const auto most = policy.max_bytes_per_peer;
      most > 0 && !wanted.peer.empty() && most / wanted.gpus < least)
    return refusal(wanted.peer, most, kPeerBytes);
  return {};
}

std::string Ledger::Impl::quota_text(const Entry& entry) const {
  const auto& wanted = entry.lease.wanted;
  const bool is_agents = is_over_agents(*this, entry);
  const auto who = !is_agents            ? wanted.peer
                   : wanted.peer.empty() ? wanted.agent
                                         : wanted.agent + " of " + wanted.peer;
  return fmt::format("{} may hold {} at once ({}) and holds {} now", who,
                     human_bytes(is_agents ? *entry.agent->quota : policy.max_bytes_per_peer),
                     is_agents ? kQuotas : kPeerBytes,
                     human_bytes(is_agents ? quota_used(entry) : peer_bytes(wanted)));
}

// In the way are its own leases, those that end first.
Refusal Ledger::Impl::over_quota(const Entry& entry) const {
  const auto& wanted = entry.lease.wanted;
  const bool is_agents = is_over_agents(*this, entry);
  const auto needed = least_bytes(wanted) * wanted.gpus;
  const auto most = is_agents ? *entry.agent->quota : policy.max_bytes_per_peer;
  auto held = is_agents ? quota_used(entry) : peer_bytes(wanted);
  std::vector<const Lease*> own;
  for (const auto& [id, other] : entries)
    if (is_held(other.lease) && other.lease.wanted.peer == wanted.peer &&
        (!is_agents || other.agent == entry.agent))
      own.push_back(&other.lease);
  std::ranges::sort(own, [](const Lease* a, const Lease* b) {
    return std::tie(a->expires_at, a->id) < std::tie(b->expires_at, b->id);
  });
  Refusal refusal{quota_text(entry), {}, {}, {}};
  for (const auto* lease : own) {
    if (held + needed <= most) break;
    held -= promised(*lease);
    refusal.in_the_way.push_back(lease->id);
    refusal.may_fit_in = Seconds(lease->expires_at - now);
  }
  if (!own.empty())
    refusal.reason +=
        fmt::format("; lease {} of its own ends in {} unless it is renewed", own.front()->id,
                    human_duration(seconds_between(now, own.front()->expires_at)));
  return refusal;
}

// ---- room that is kept

// Leases of its own peer stand where room is kept for it: while they do, that cannot be enough.
bool Ledger::Impl::is_behind_its_own(const Entry& entry) const {
  const auto least = least_bytes(entry.lease.wanted);
  return std::ranges::any_of(entry.targets, [&](CardIndex card) {
    const auto total = cards[card].card.total;
    return total - std::min(total, own_in_the_way(entry, card)) < least;
  });
}

// Of its own peer on the card, without those that were asked to make room for it.
std::uint64_t Ledger::Impl::own_in_the_way(const Entry& entry, CardIndex card) const {
  if (entry.peer == nullptr || entry.peer->on.size() <= card) return 0;
  auto own = entry.peer->on[card];
  for (const auto id : entry.asked) {
    const auto& yielder = entries.at(id);
    if (yielder.peer != entry.peer) continue;
    for (std::size_t i = 0; i < yielder.seats.size(); ++i)
      if (yielder.seats[i].card == card) own -= yielder.lease.parts[i].bytes;
  }
  return own;
}

// As of now; null where there is no limit.
Keeping* Ledger::Impl::keeping_of(const Entry& entry) {
  if (entry.peer == nullptr || entry.lease.wanted.by_admin) return nullptr;
  auto& keeping = keepings.try_emplace(entry.peer->name, Keeping{0, now}).first->second;
  const auto passed = seconds_between(keeping.as_of, now);
  if (passed <= 0) return &keeping;  // another of its requests was looked at in this turn
  keeping.used_s += std::exchange(keeping.is_kept, false) ? passed : -passed / kComesBack;
  keeping.used_s = std::max(0.0, keeping.used_s);
  keeping.as_of = now;
  const auto most = policy.hold_for.count();
  keeping.is_spent = keeping.used_s >= (keeping.is_spent ? most / 2 : most);
  return &keeping;
}

// Those of peers that may keep room as long as any.
void Ledger::Impl::forget_keepings() {
  if (keepings.size() <= kKeepingsToSweep) return;
  std::erase_if(keepings, [&](const auto& named) {
    const auto& keeping = named.second;
    return !keeping.is_kept && seconds_between(keeping.as_of, now) > kComesBack * keeping.used_s;
  });
}

bool Ledger::Impl::may_keep_room(const Entry& entry) {
  const auto* keeping = keeping_of(entry);
  return keeping == nullptr || !keeping->is_spent;
}

void Ledger::Impl::note_kept(const Entry& entry) {
  if (auto* keeping = keeping_of(entry); keeping != nullptr) keeping->is_kept = true;
}

}  // namespace sluice::broker
