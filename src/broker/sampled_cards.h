// The GPUs as the newest sample shows them, and what it says about the holders of leases. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/enforce/card_snapshot.h"
#include "broker/enforce/enforce.h"
#include "broker/enforce/enforce_cgroup.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

class SampledCards {
 public:
  // False when a later one is known already. `sequence` 0: it is the newest.
  bool take_in(std::vector<CardSnapshot> cards, std::uint64_t sequence, bool has_all,
               bool mps_daemon);

  const std::vector<CardSnapshot>& all() const noexcept { return cards_; }
  bool has_mps_daemon() const noexcept { return mps_daemon_; }
  const CardSnapshot* find(const std::string& uuid) const;  // null: not seen
  // The memory of the card that the lease's first part is on; 0 where it is not known.
  std::uint64_t memory_for(const Lease& lease) const;
  // The uuid of the card that a request names; throws invalid_argument where it names none or
  // several. The name of a card that may still come is returned as it is: the ledger matches it.
  std::string uuid_of(const std::string& device) const;

  // Memory that the holder's processes use on the lease's cards, with the time of the oldest
  // process list it is from; absent where it is not known.
  std::optional<device::Timed> used_by(const Lease& lease) const;
  // Without what only the broker knows: host_pids and cgroup_verified. Absent where a card of the
  // lease is not seen.
  std::optional<Evidence> evidence_for(const Lease& lease, Instant now, Seconds stale) const;
  // The limits for the holder of a lease; empty where the kernel can set none.
  std::vector<DmemLimit> limits_for(const Lease& lease) const;
  bool is_on_nvidia(const Lease& lease) const;  // all of it

 private:
  std::vector<CardSnapshot> cards_;
  std::uint64_t sequence_ = 0;
  bool has_all_ = false;  // these are all GPUs of the machine
  bool mps_daemon_ = false;
};

}  // namespace sluice::broker
