// Holds processes to the bytes of their leases: by control groups, through the kernel or NVIDIA's
// driver. Reads and writes files and starts programs, so no lock of the ledger is held meanwhile.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "broker/enforce/driver_limits.h"
#include "broker/enforce/enforce_cgroup.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

// One lease, and the limits that the kernel is to keep for it.
struct LimitJob {
  LeaseId id;
  Holder holder;
  std::vector<DmemLimit> limits;
};

struct LimitWork {
  std::set<LeaseId> lift;
  std::vector<std::pair<Lease, bool>> for_driver;  // with whether it has memory there
  std::vector<LimitJob> jobs;
};

// Not thread-safe.
class LimitSetter {
 public:
  // `record` as in LeaseGroups, `program` as in DriverLimits.
  LimitSetter(std::string cgroup_root, std::string proc, std::string record, std::string program)
      : proc_(proc),
        groups_(std::move(cgroup_root), std::move(proc), std::move(record)),
        driver_(std::move(program)) {}

  // Lifts the limits of all other leases; returns those of `live` that have a group since before.
  std::vector<LeaseId> sweep(const std::vector<LeaseId>& live);

  // Returns the leases that are limited now. The driver's answers come later: see collect().
  std::vector<LeaseId> carry_out(const LimitWork& work, Instant now);
  // Those that the driver has limited since the last call.
  std::vector<LeaseId> collect(Instant now);
  // Whether each limit stands: a process may have been moved away, and a limit lifted.
  std::vector<std::pair<LeaseId, bool>> check(const std::vector<LimitJob>& jobs) const;
  void lift(LeaseId id) { groups_.lift(id); }

 private:
  template <class Enter>
  std::string in_time(LeaseId id, const Holder& holder, Enter enter);
  void ask_driver(const Lease& lease, bool has_memory, Instant now);

  const std::string proc_;
  LeaseGroups groups_;
  DriverLimits driver_;
};

}  // namespace sluice::broker
