#include "broker/ledger/policy.h"

#include <cmath>

#include "base/bytes.h"
#include "broker/lease/config.h"

namespace sluice::broker {

namespace {

std::uint64_t gib_bytes(double gb) { return static_cast<std::uint64_t>(std::llround(gb * kGiB)); }

std::map<std::string, std::uint64_t> in_bytes(const std::map<std::string, double>& gb) {
  std::map<std::string, std::uint64_t> bytes;
  for (const auto& [name, value] : gb) bytes[name] = gib_bytes(value);
  return bytes;
}

}  // namespace

Policy policy_of(const BrokerConfig& c) {
  Policy p;
  p.stale = Seconds(c.stale_s), p.ageing = Seconds(c.ageing_s);
  p.hold_after = Seconds(c.hold_after_s), p.hold_for = Seconds(c.hold_for_s);
  p.yield_within = Seconds(c.yield_within_s);
  if (c.escalation == "revoke") p.escalate = Policy::Escalate::revoke;
  if (c.escalation == "terminate") p.escalate = Policy::Escalate::terminate;
  p.preempt_other_users = c.preempt_other_users;
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  p.max_leases_per_peer = count(c.max_leases_per_peer);
  p.max_waiting_per_peer = count(c.max_waiting_per_peer);
  p.max_cpu_leases_per_peer = count(c.max_cpu_leases_per_peer);
  p.max_leases_per_agent = count(c.max_leases_per_agent);
  p.max_bytes_per_peer = gib_bytes(c.max_gb_per_peer);
  p.cpu_ttl = Seconds(c.cpu_ttl_s);
  p.quotas = in_bytes(c.quotas_gb);
  p.reservations = in_bytes(c.reservations_gb);
  return p;
}

}  // namespace sluice::broker
