#include "broker/ledger/limits.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace sluice::broker {

namespace {

// Past three quarters of what can be kept of all, only those who have fewer than this get more.
constexpr std::size_t kFewLeases = 16, kFewWaiting = 4;
constexpr std::string_view kQuotas = "broker.quotas_gb", kPeerBytes = "broker.max_gb_per_peer";
constexpr std::size_t kPeersToFill = 4;  // a peer's returns may not fill the ledger, either

std::size_t three_quarters(std::size_t n) { return n - n / 4; }

[[noreturn]] void refuse(std::string text) { throw Error(Code::exhausted, std::move(text)); }

// `max` in all, of which the last quarter is for peers that have fewer than `few`.
bool is_full(std::size_t all, std::size_t max, const Peer* peer, std::size_t own, std::size_t few) {
  return all >= max || (peer != nullptr && own >= few && all >= three_quarters(max));
}

std::uint64_t quota_used(const Entry& entry) {
  const auto own = entry.agent->held_by.find(entry.lease.request.peer);
  return own == entry.agent->held_by.end() ? 0 : own->second;
}

std::uint64_t peer_bytes(const Entry& entry) {
  return entry.peer == nullptr ? 0 : entry.peer->bytes;
}

// True when the request exceeds the quota of its agent rather than the limit of its peer.
bool is_over_agents(const Entry& entry) {
  const auto& request = entry.lease.request;
  return entry.agent->quota &&
         quota_used(entry) + min_bytes_per_gpu(request) * request.gpus > *entry.agent->quota;
}

// Leases of the same agent, or of the same peer, in the order in which they end.
std::vector<const Lease*> own_leases(const LeaseTable& leases, const Entry& entry, bool is_agents) {
  std::vector<const Lease*> own;
  for (const auto& [id, other] : leases.all())
    if (is_held(other.lease) && other.lease.request.peer == entry.lease.request.peer &&
        (!is_agents || other.agent == entry.agent))
      own.push_back(&other.lease);
  std::ranges::sort(own, [](const Lease* a, const Lease* b) {
    return std::tie(a->expires_at, a->id) < std::tie(b->expires_at, b->id);
  });
  return own;
}

}  // namespace

void check_may_lease(const Policy& policy, const LeaseRequest& request, const Peer* peer,
                     std::size_t all) {
  if (is_full(all, policy.max_leases, peer, peer ? peer->all() : 0, kFewLeases))
    refuse(fmt::format("{} leases are in use; no more can be kept", all));
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

void check_may_wait(const Policy& policy, const Peer* peer, std::size_t waiting) {
  const auto own = peer == nullptr ? 0 : peer->waiting;
  if (is_full(waiting, policy.max_waiting, peer, own, kFewWaiting))
    refuse(fmt::format("{} requests wait already; ask later", waiting));
  if (peer != nullptr && own >= policy.max_waiting_per_peer)
    refuse(
        fmt::format("{} requests of {} wait already, as many as broker.max_waiting_per_peer "
                    "allows; ask later",
                    own, peer->name));
}

void check_may_use_cpu(const Policy& policy, const Peer* peer) {
  if (peer != nullptr && peer->on_cpu >= policy.max_cpu_leases_per_peer)
    refuse(
        fmt::format("{} has {} leases on the CPU, as many as broker.max_cpu_leases_per_peer "
                    "allows; they end {} s after their last renewal",
                    peer->name, peer->on_cpu, policy.cpu_ttl.count()));
}

std::optional<std::uint64_t> quota_left(const Policy& policy, const Entry& entry) {
  const auto& request = entry.lease.request;
  std::optional<std::uint64_t> left;
  const auto limit = [&](std::uint64_t max, std::uint64_t used) {
    const auto rest = max - std::min(max, used);
    left = std::min(left.value_or(rest), rest);
  };
  if (entry.agent->quota) limit(*entry.agent->quota, quota_used(entry));
  if (policy.max_bytes_per_peer > 0 && !request.peer.empty())
    limit(policy.max_bytes_per_peer, peer_bytes(entry));
  if (left) *left /= request.gpus;
  return left;
}

bool is_over_quota(const Policy& policy, const Entry& entry) {
  const auto left = quota_left(policy, entry);
  return left && *left < min_bytes_per_gpu(entry.lease.request);
}

std::string why_over_quota(const Policy& policy, const LeaseRequest& request) {
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

std::string quota_text(const Policy& policy, const Entry& entry) {
  const auto& request = entry.lease.request;
  const bool is_agents = is_over_agents(entry);
  const auto who = !is_agents             ? request.peer
                   : request.peer.empty() ? request.agent
                                          : request.agent + " of " + request.peer;
  return fmt::format("{} may hold {} at once ({}) and holds {} now", who,
                     human_bytes(is_agents ? *entry.agent->quota : policy.max_bytes_per_peer),
                     is_agents ? kQuotas : kPeerBytes,
                     human_bytes(is_agents ? quota_used(entry) : peer_bytes(entry)));
}

Refusal quota_refusal(const Policy& policy, const Entry& entry, const LeaseTable& leases,
                      Instant now) {
  const auto& request = entry.lease.request;
  const bool is_agents = is_over_agents(entry);
  const auto needed = min_bytes_per_gpu(request) * request.gpus;
  const auto max = is_agents ? *entry.agent->quota : policy.max_bytes_per_peer;
  auto held = is_agents ? quota_used(entry) : peer_bytes(entry);
  const auto own = own_leases(leases, entry, is_agents);
  Refusal refusal{quota_text(policy, entry), {}, {}, {}};
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

}  // namespace sluice::broker
