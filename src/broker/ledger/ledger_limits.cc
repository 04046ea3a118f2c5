// Limits by peer, and idempotency keys. Each peer has limits of its own, so that one which takes
// all it can leaves the others theirs; the last quarter of the shared limits is for peers that
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
constexpr std::size_t kHoldBudgetsToSweep = 1024;
constexpr double kComesBack = 4;         // seconds without kept capacity that restore one with
constexpr std::size_t kPeersToFill = 4;  // a peer's returns may not fill the ledger, either

std::size_t three_quarters(std::size_t n) { return n - n / 4; }

[[noreturn]] void refuse(std::string text) { throw Error(Code::exhausted, std::move(text)); }

// `max` in all, of which the last quarter is for peers that have fewer than `few`.
bool is_full(std::size_t all, std::size_t max, const Peer* peer, std::size_t own, std::size_t few) {
  return all >= max || (peer != nullptr && own >= few && all >= three_quarters(max));
}

// True when the request exceeds the quota of its agent rather than the limit of its peer.
bool is_over_agents(const Ledger::Impl& in, const Entry& entry) {
  const auto& request = entry.lease.request;
  return entry.agent->quota &&
         in.quota_used(entry) + min_bytes_per_gpu(request) * request.gpus > *entry.agent->quota;
}

// Keys belong to their peer.
std::string keyed_by(const LeaseRequest& request) {
  return request.peer + '\n' + std::string(client_key(request.idempotency_key));
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

void Ledger::Impl::check_limits(const LeaseRequest& request) const {
  const auto* peer = request.peer.empty() ? nullptr : find_peer(request.peer);
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
  const auto agent = peer->agents.find(request.agent);
  if (agent != peer->agents.end() && agent->second >= policy.max_leases_per_agent)
    refuse(
        fmt::format("agent {} of {} has {} leases, as many as broker.max_leases_per_agent "
                    "allows: release one first",
                    request.agent, peer->name, agent->second));
}

void Ledger::Impl::check_may_wait(const LeaseRequest& request) const {
  const auto* peer = request.peer.empty() ? nullptr : find_peer(request.peer);
  const auto own = peer == nullptr ? 0 : peer->waiting;
  if (is_full(queue.size(), policy.max_waiting, peer, own, kFewWaiting))
    refuse(fmt::format("{} requests wait already; ask later", queue.size()));
  if (peer != nullptr && own >= policy.max_waiting_per_peer)
    refuse(
        fmt::format("{} requests of {} wait already, as many as broker.max_waiting_per_peer "
                    "allows; ask later",
                    own, peer->name));
}

void Ledger::Impl::check_may_use_cpu(const LeaseRequest& request) const {
  const auto* peer = request.peer.empty() ? nullptr : find_peer(request.peer);
  if (peer != nullptr && peer->on_cpu >= policy.max_cpu_leases_per_peer)
    refuse(
        fmt::format("{} has {} leases on the CPU, as many as broker.max_cpu_leases_per_peer "
                    "allows; they end {} s after their last renewal",
                    peer->name, peer->on_cpu, policy.cpu_ttl.count()));
}

void Ledger::Impl::leave_key(const Entry& entry) {
  const auto& request = entry.lease.request;
  if (request.idempotency_key.empty()) return;
  const auto at = by_key.find(keyed_by(request));
  if (at != by_key.end() && at->second == entry.lease.id) by_key.erase(at);
}

const Lease* Ledger::find_retried(const LeaseRequest& request) const {
  if (request.idempotency_key.empty()) return nullptr;
  const auto at = impl_->by_key.find(keyed_by(request));
  return at == impl_->by_key.end() ? nullptr : &impl_->entries.at(at->second).lease;
}

void Ledger::add_retry(LeaseId id, std::uint64_t connection) {
  auto& entry = impl_->entries.at(id);
  ++entry.requesters;
  auto& bound_to = entry.lease.request.holder.connection;
  if (connection == 0 || connection == bound_to) return;
  if (bound_to != 0) drop_from(impl_->by_connection, bound_to, id);
  bound_to = connection;
  entry.lease.request.bound = true;  // a restart may have cut it off from the one before
  impl_->by_connection[connection].push_back(id);
}

void Ledger::Impl::join_peer(Entry& entry) {
  const auto& lease = entry.lease;
  if (!lease.request.idempotency_key.empty() && lease.state != State::draining)
    by_key[keyed_by(lease.request)] = lease.id;
  if (lease.request.peer.empty()) return;
  entry.peer = &peers.try_emplace(lease.request.peer).first->second;
  if (entry.peer->name.empty()) entry.peer->name = lease.request.peer;
  ++entry.peer->of(lease.state);
  if (lease.state != State::draining) ++entry.peer->agents[lease.request.agent];
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
    const auto agent = peer->agents.find(entry.lease.request.agent);
    if (--agent->second == 0) peer->agents.erase(agent);
  }
  if (peer->all() != 0) return;
  entry.peer = nullptr;
  peers.erase(entry.lease.request.peer);
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
  auto& own = entry.agent->held_by[entry.lease.request.peer];
  add(own);
  if (own == 0) entry.agent->held_by.erase(entry.lease.request.peer);
}

std::uint64_t Ledger::Impl::quota_used(const Entry& entry) const {
  const auto own = entry.agent->held_by.find(entry.lease.request.peer);
  return own == entry.agent->held_by.end() ? 0 : own->second;
}

std::uint64_t Ledger::Impl::peer_bytes(const LeaseRequest& request) const {
  const auto* peer = find_peer(request.peer);
  return peer == nullptr ? 0 : peer->bytes;
}

// On each of its GPUs; nothing when there is no limit.
std::optional<std::uint64_t> Ledger::Impl::quota_left(const Entry& entry) const {
  const auto& request = entry.lease.request;
  std::optional<std::uint64_t> left;
  const auto limit = [&](std::uint64_t max, std::uint64_t used) {
    const auto rest = max - std::min(max, used);
    left = std::min(left.value_or(rest), rest);
  };
  if (entry.agent->quota) limit(*entry.agent->quota, quota_used(entry));
  if (policy.max_bytes_per_peer > 0 && !request.peer.empty())
    limit(policy.max_bytes_per_peer, peer_bytes(request));
  if (left) *left /= request.gpus;
  return left;
}

// Where it could not even hold this alone; else empty.
std::string Ledger::Impl::why_over_quota(const LeaseRequest& request) const {
  const auto min_bytes = min_bytes_per_gpu(request);
  const auto refusal = [&](const std::string& who, std::uint64_t max, std::string_view setting) {
    return fmt::format("{} requested, but {} may hold {} at once ({})",
                       request.gpus == 1
                           ? human_bytes(min_bytes)
                           : fmt::format("{} times {}", request.gpus, human_bytes(min_bytes)),
                       who, human_bytes(max), setting);
  };
  if (!policy.quotas.empty())
    if (const auto quota = policy.quotas.find(request.agent);
        quota != policy.quotas.end() && quota->second / request.gpus < min_bytes)
      return refusal(request.agent, quota->second, kQuotas);
  if (const auto max = policy.max_bytes_per_peer;
      max > 0 && !request.peer.empty() && max / request.gpus < min_bytes)
    return refusal(request.peer, max, kPeerBytes);
  return {};
}

std::string Ledger::Impl::quota_text(const Entry& entry) const {
  const auto& request = entry.lease.request;
  const bool is_agents = is_over_agents(*this, entry);
  const auto who = !is_agents             ? request.peer
                   : request.peer.empty() ? request.agent
                                          : request.agent + " of " + request.peer;
  return fmt::format("{} may hold {} at once ({}) and holds {} now", who,
                     human_bytes(is_agents ? *entry.agent->quota : policy.max_bytes_per_peer),
                     is_agents ? kQuotas : kPeerBytes,
                     human_bytes(is_agents ? quota_used(entry) : peer_bytes(request)));
}

// In the way are its own leases, those that end first.
Refusal Ledger::Impl::over_quota(const Entry& entry) const {
  const auto& request = entry.lease.request;
  const bool is_agents = is_over_agents(*this, entry);
  const auto needed = min_bytes_per_gpu(request) * request.gpus;
  const auto max = is_agents ? *entry.agent->quota : policy.max_bytes_per_peer;
  auto held = is_agents ? quota_used(entry) : peer_bytes(request);
  std::vector<const Lease*> own;
  for (const auto& [id, other] : entries)
    if (is_held(other.lease) && other.lease.request.peer == request.peer &&
        (!is_agents || other.agent == entry.agent))
      own.push_back(&other.lease);
  std::ranges::sort(own, [](const Lease* a, const Lease* b) {
    return std::tie(a->expires_at, a->id) < std::tie(b->expires_at, b->id);
  });
  Refusal refusal{quota_text(entry), {}, {}, {}};
  for (const auto* lease : own) {
    if (held + needed <= max) break;
    held -= promised(*lease);
    refusal.blocked_by.push_back(lease->id);
    refusal.may_fit_in = Seconds(lease->expires_at - now);
  }
  if (!own.empty())
    refusal.reason +=
        fmt::format("; lease {} of its own ends in {} unless it is renewed", own.front()->id,
                    human_duration(seconds_between(now, own.front()->expires_at)));
  return refusal;
}

// ---- capacity that is kept

// True while leases of its own peer occupy the target cards, so that keeping capacity there cannot
// be enough.
bool Ledger::Impl::is_behind_its_own(const Entry& entry) const {
  const auto min_bytes = min_bytes_per_gpu(entry.lease.request);
  return std::ranges::any_of(entry.targets, [&](CardIndex card) {
    const auto total = cards[card].card.total;
    return total - std::min(total, own_blocking(entry, card)) < min_bytes;
  });
}

// Bytes of its own peer on the card, without the leases that were asked to yield to it.
std::uint64_t Ledger::Impl::own_blocking(const Entry& entry, CardIndex card) const {
  if (entry.peer == nullptr || entry.peer->on.size() <= card) return 0;
  auto own = entry.peer->on[card];
  for (const auto id : entry.pending_yields) {
    const auto& yielder = entries.at(id);
    if (yielder.peer != entry.peer) continue;
    for (std::size_t i = 0; i < yielder.part_states.size(); ++i)
      if (yielder.part_states[i].card == card) own -= yielder.lease.parts[i].bytes;
  }
  return own;
}

// As of now; null where there is no limit.
HoldBudget* Ledger::Impl::hold_budget_of(const Entry& entry) {
  if (entry.peer == nullptr || entry.lease.request.by_admin) return nullptr;
  auto& budget = hold_budgets.try_emplace(entry.peer->name, HoldBudget{0, now}).first->second;
  const auto passed = seconds_between(budget.as_of, now);
  if (passed <= 0) return &budget;  // another of its requests was examined in this pass
  budget.used_s += std::exchange(budget.is_kept, false) ? passed : -passed / kComesBack;
  budget.used_s = std::max(0.0, budget.used_s);
  budget.as_of = now;
  const auto limit = policy.hold_for.count();
  budget.is_spent = budget.used_s >= (budget.is_spent ? limit / 2 : limit);
  return &budget;
}

// Drops the budgets of peers that have all of it again.
void Ledger::Impl::forget_hold_budgets() {
  if (hold_budgets.size() <= kHoldBudgetsToSweep) return;
  std::erase_if(hold_budgets, [&](const auto& named) {
    const auto& budget = named.second;
    return !budget.is_kept && seconds_between(budget.as_of, now) > kComesBack * budget.used_s;
  });
}

bool Ledger::Impl::may_hold_capacity(const Entry& entry) {
  const auto* budget = hold_budget_of(entry);
  return budget == nullptr || !budget->is_spent;
}

void Ledger::Impl::note_kept(const Entry& entry) {
  if (auto* budget = hold_budget_of(entry); budget != nullptr) budget->is_kept = true;
}

}  // namespace sluice::broker
