#include "cli/model/profile_watch.h"

#include <utility>

#include "base/log.h"

namespace sluice::cli {

ProfileWatch::ProfileWatch(device::GpuConfig config) : config_(std::move(config)) {
  for (auto& known : device::profile_warnings(config_)) said_.insert(std::move(known));
}

ProfileWatch::ProfileWatch(watch::Monitor& monitor, device::GpuConfig config)
    : ProfileWatch(std::move(config)) {
  subscription_ = monitor.subscribe(
      [this](std::shared_ptr<const watch::Snapshot> snapshot) {
        for (const auto& warning : new_warnings(*snapshot)) log::warn("{}", warning);
      },
      [](const watch::Event&) {});
}

std::vector<std::string> ProfileWatch::new_warnings(const watch::Snapshot& snapshot) {
  const bool done = snapshot.sampler.state.starts_with("running") ||
                    snapshot.sampler.state.starts_with("not needed");
  if (!done && snapshot.gpus.empty()) return {};
  device::Inventory inventory;
  std::set<std::string> now;
  for (const auto& view : snapshot.gpus) {
    inventory.gpus.push_back(view.gpu);
    now.insert(view.gpu.uuid);
  }
  if (looked_ && now == seen_) return {};
  looked_ = true;
  seen_ = std::move(now);
  std::vector<std::string> fresh;
  for (auto& warning : device::profile_warnings(config_, inventory))
    if (said_.insert(warning).second) fresh.push_back(std::move(warning));
  return fresh;
}

}  // namespace sluice::cli
