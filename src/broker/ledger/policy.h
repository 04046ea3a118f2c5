// The rules that the ledger works by: times, limits, quotas and reservations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"

namespace sluice::broker {

struct BrokerConfig;

struct Policy {
  Seconds stale{10};       // a card's sample older than this is no knowledge
  Seconds ageing{30};      // waiting this long counts as one step of priority
  Seconds hold_after{20};  // a request that waited this long has capacity kept for it
  // A peer may hold reservations for hold_for; the budget refills at a quarter of that rate while
  // it holds none. Requests of administrators have no such limit, and go before what is kept for
  // others.
  Seconds hold_for{300};
  Seconds yield_within{10};  // time a holder gets when asked to yield
  enum class Escalate { report, revoke, terminate } escalate = Escalate::report;
  // When true, a request may ask holders of other users to yield. It can never revoke their
  // leases: a high priority would otherwise end the work of other users.
  bool preempt_other_users = false;
  std::size_t max_leases = 100'000, max_waiting = 10'000;
  // Limits of one peer, so that it takes nothing from others: leases held or waited for, those that
  // wait, those on the CPU; and all of these of one agent of the peer. An agent is counted for each
  // peer separately: anyone may choose its name. An unknown peer, which is a caller in the same
  // process, has the limits above alone.
  std::size_t max_leases_per_peer = 4096, max_waiting_per_peer = 512;
  std::size_t max_cpu_leases_per_peer = 1024, max_leases_per_agent = 2048;
  Seconds cpu_ttl{60};  // longest time to live of a lease on the CPU, which holds nothing
  std::uint64_t max_bytes_per_peer = 0;  // on GPUs, held at once; 0: no limit
  // Bytes an agent may hold at once, of each peer by itself; those of no known peer are one.
  std::map<std::string, std::uint64_t> quotas;
  std::map<std::string, std::uint64_t> reservations;  // bytes kept free for an agent
  // A lease is for all that its process takes, the CUDA context included. Over-use is
  // reported above both of these: rounding by the driver is not over-use.
  double over_use_share = 0.02;
  std::uint64_t over_use_bytes = 64 << 20;
};
Policy policy_of(const BrokerConfig& config);

}  // namespace sluice::broker
