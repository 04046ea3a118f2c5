// Decides the enforcement tier of a lease from evidence, and the environment variables that its
// holder should export. Pure: nothing here acts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "broker/lease/lease.h"

namespace sluice::broker {

// Evidence of the newest sample on one card of the lease.
struct CardEvidence {
  bool lists_memory = false;  // the driver reported, recently, how much each process has
  bool holder_seen = false;   // the holder among them
  bool holder_uses_mps = false;
};

struct Evidence {
  std::vector<CardEvidence> cards;  // one for each part of the lease
  bool host_pids = false;           // our process numbers are the ones that drivers report
  bool mps_limit_seen = false;      // the daemon runs, and the holder was started with our limit
  bool cgroup_verified = false;     // the limit was written, read back, and the holder is in it
};

// The highest tier with evidence on every card of the lease. In a container the driver's
// process numbers may not be ours, so `observed` waits there until the holder was seen.
Enforcement enforcement_of(const Lease& lease, const Evidence& evidence) noexcept;

// A card, for the holder's environment.
struct EnvCard {
  std::string uuid, bus;
  bool is_nvidia = true;
  std::uint64_t memory_total = 0;  // of the card, not only what may be promised
};

using Env = std::vector<std::pair<std::string, std::string>>;

// A lease with parts gets the GPUs by UUID in the order of the parts, the lease's number and
// bytes, its share of the card rounded down to four digits, and with a daemon the MPS
// limit. Without parts the GPUs are hidden. `cards` are in the order of the parts.
Env env_for(const Lease& lease, std::span<const EnvCard> cards, bool mps_daemon);

// "0=8192M,1=8192M": devices are counted among those the holder sees.
std::string mps_limit(const Lease& lease);

}  // namespace sluice::broker
