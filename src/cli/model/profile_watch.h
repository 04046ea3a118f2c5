// Says in the log, once, where [gpu] and the cards that are really there disagree: a
// gpu_type of another card, a precision the card is slow at, an agent that asks for
// more memory than there is.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/config.h"
#include "watch/monitor/monitor.h"

namespace sluice::cli {

class ProfileWatch {
 public:
  // Listens to `monitor`, which must outlive this.
  ProfileWatch(watch::Monitor& monitor, device::GpuConfig config);

  // Not to be called once it listens.
  explicit ProfileWatch(device::GpuConfig config);

  // The warnings that this snapshot is the first to give, beyond those that the
  // settings alone gave when they were loaded. Nothing while the sampler is
  // still looking, for no GPU would be one of them.
  std::vector<std::string> new_warnings(const watch::Snapshot& snapshot);

 private:
  const device::GpuConfig config_;
  std::set<std::string> seen_, said_;  // only the monitor's thread uses them
  bool looked_ = false;
  std::shared_ptr<void> subscription_;  // last: ends before what it uses
};

}  // namespace sluice::cli
