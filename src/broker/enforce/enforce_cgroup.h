// Limits that the kernel keeps: one control group for each lease, with dmem.max for the
// memory of AMD and Intel cards (Linux 6.14 and later, control groups v2, root).
//
// The holder's process is moved into the group, so it leaves the one it was in, with
// whatever limits that has; therefore this is a choice of the operator's. When the
// lease is over the process moves back. Its origin is what the kernel reported when it was
// moved, never what a client claims; a file keeps it for the next broker. The kernel charges
// memory to the group in which it was allocated, so a process that has some already is not
// moved: that memory would escape. NVIDIA's driver takes limits for a group as well, but not
// through these files: see driver_limits.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "broker/lease/lease.h"

namespace sluice::broker {

struct DmemLimit {
  std::string bus;  // PCI, "0000:03:00.0"
  std::uint64_t bytes;
  std::uint64_t used = 0;  // by the holder and its children, as the driver lists it
};

// Not thread-safe.
class LeaseGroups {
 public:
  // `record`: the file that remembers where processes came from; empty: nothing outlasts this
  // object.
  LeaseGroups(std::string cgroup_root, std::string proc, std::string record = {});

  // Why there can be no dmem limits here; empty when there can.
  std::string why_not() const;

  std::string folder(LeaseId lease) const;  // of its group
  bool exists(LeaseId lease) const;

  // Makes the group, sets the limits, moves the process in and reads all of it back.
  // Returns what went wrong, and then nothing is left behind; empty when stands() is.
  std::string limit(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits);

  // Makes the group and moves the process in, for a limit that a driver keeps; the same otherwise.
  std::string enter(LeaseId lease, std::int64_t pid, bool has_memory);

  // Why the limits cannot be relied on now; empty when each is set as requested, the process is in
  // the group, and what the driver lists is counted there: no child of the holder's is outside.
  std::string stands(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits) const;

  // Lifts the limit and removes the group; processes in it go back to where the holder came
  // from, or to its nearest ancestor that still exists. When the record was lost they stay: a group
  // without a limit is equal to the root.
  void lift(LeaseId lease);

  // Lifts every group that belongs to none of these: leases of a broker before us.
  void sweep(std::span<const LeaseId> live);

 private:
  std::string why_no_groups() const;
  std::string admit(LeaseId lease, std::int64_t pid, std::span<const DmemLimit> limits,
                    std::span<const std::string> regions, bool has_memory);
  std::string regions_of(std::span<const DmemLimit> limits, std::vector<std::string>& names) const;
  std::string set_up(const std::string& group, std::int64_t pid, std::span<const DmemLimit> limits,
                     std::span<const std::string> regions) const;
  std::string read_back(const std::string& group, std::int64_t pid,
                        std::span<const DmemLimit> limits,
                        std::span<const std::string> regions) const;

  std::string origin_of(std::int64_t pid) const;
  std::string remember(LeaseId lease, const std::string& origin);
  void load();
  std::string save();

  const std::string root_, proc_, record_;
  std::map<LeaseId, std::string> origins_;  // the group each holder came from
  std::size_t lines_ = 0;                   // of the record, those of groups that are gone included
};

}  // namespace sluice::broker
