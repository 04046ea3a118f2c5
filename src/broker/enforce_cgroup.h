// Limits that the kernel keeps: one control group for each lease, with dmem.max for the
// memory of AMD and Intel cards (Linux 6.14 and later, control groups v2, root).
//
// The holder's process is moved into the group, so it leaves the one it was in, with
// whatever limits that has; therefore this is a choice of the operator's. When the
// lease is over the process goes back. NVIDIA's driver is not asked through these
// files: it has an interface of its own for that, which is not used here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "broker/lease.h"

namespace sluice::broker {

struct DmemLimit {
  std::string bus;  // PCI, "0000:03:00.0"
  std::uint64_t bytes;
};

// Not thread-safe.
class LeaseGroups {
 public:
  LeaseGroups(std::string cgroup_root, std::string proc);

  // Why there can be no such limits here; empty when there can.
  std::string why_not() const;

  // Makes the group, sets the limits, moves the process in and reads all of it back.
  // Returns what went wrong, and then nothing is left behind; empty when every limit
  // stands as asked and the process is in the group.
  std::string limit(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits);

  // Lifts the limit and removes the group; processes in it go back to where the holder
  // came from. One that cannot be removed yet is tried again by sweep().
  void lift(LeaseId lease);

  // Lifts every group that belongs to none of these: leases of a broker before us.
  void sweep(std::span<const LeaseId> live);

 private:
  std::string group(LeaseId lease) const;
  std::string regions_of(std::span<const DmemLimit> limits, std::vector<std::string>& names) const;
  std::string set_up(const std::string& group, std::int64_t pid, std::span<const DmemLimit> limits,
                     std::span<const std::string> regions) const;
  std::string read_back(const std::string& group, std::int64_t pid,
                        std::span<const DmemLimit> limits,
                        std::span<const std::string> regions) const;

  const std::string root_, proc_;
  std::map<LeaseId, std::string> origins_;  // the group each holder came from
};

}  // namespace sluice::broker
