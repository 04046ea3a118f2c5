// Limits that NVIDIA's driver keeps (r615 and later). They are set by a process of its own for
// each lease, `sluice gpu-limit`: a driver may hang, and no response of the broker waits for one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process/child.h"
#include "broker/lease/lease.h"

namespace sluice::broker {

// Not thread-safe. Nothing here waits.
class DriverLimits {
 public:
  // The program to start; empty: there are no such limits here.
  explicit DriverLimits(std::string program) : program_(std::move(program)) {}

  bool is_possible() const noexcept { return !program_.empty(); }

  // Begins to hold the group of the lease to its bytes, on each of its GPUs.
  void start(const Lease& lease, const std::string& group, Instant now);

  struct Result {
    LeaseId lease;
    std::string wrong;  // empty: every limit was set and read back
  };
  // The results since the last call; a command that takes longer than ten seconds is given up.
  std::vector<Result> advance(Instant now);

 private:
  struct Run {
    std::unique_ptr<Child> child;
    Instant started;
  };
  const std::string program_;
  std::map<LeaseId, Run> running_;
  std::vector<std::unique_ptr<Child>> ending_;
  std::vector<Result> failed_to_start_;
};

}  // namespace sluice::broker
