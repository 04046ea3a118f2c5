// Keeps the machine under observation: runs the sampler process, judges health,
// keeps history, evaluates alerts and publishes a Snapshot every half second or
// as soon as something important changes. Nothing here calls a driver, so no
// call blocks on one. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "watch/config.h"
#include "watch/event.h"
#include "watch/history/history.h"
#include "watch/monitor/sampler_timing.h"
#include "watch/snapshot.h"

namespace sluice::watch {

class Monitor {
 public:
  struct Options {
    std::string program;    // path of the sluice executable, for the sampler
    std::string demo;       // scenario name or file, empty for real hardware
    std::string state_dir;  // history.db lives here; empty keeps history in memory
    WatchConfig config;
    device::HealthPolicy health = {};
    SamplerTiming timing = {};
  };
  explicit Monitor(Options options);
  ~Monitor();

  std::shared_ptr<const Snapshot> snapshot() const;

  // Called on the monitor's thread; must return quickly. The returned token
  // unsubscribes when destroyed.
  using OnSnapshot = std::function<void(std::shared_ptr<const Snapshot>)>;
  using OnEvent = std::function<void(const Event&)>;
  [[nodiscard]] std::shared_ptr<void> subscribe(OnSnapshot on_snapshot, OnEvent on_event);

  // {"device", "step_s", "metrics": {"power": {"t": [ms…], "mean": […], "min": […], "max": […]}}}
  // Throws invalid_argument, not_found.
  Json history(const HistoryQuery& query) const;
  Json trends() const;  // {"<device>": [{"metric", "kind", "text", …}]} of the last hour

  Json alerts_json() const;  // {"active": […], "recent": […], "rules": […], "silences": […]}
  // Device or rule "*" means any. Throws not_found for unknown names, invalid_argument.
  void silence(const std::string& rule, const std::string& device, double for_s);
  void unsilence(const std::string& rule, const std::string& device);

  // Readings of Scope::server come from outside.
  void report_server(device::Metric metric, double value);

  // Sets the memory held by each lease and each of our pools; replaces the previous report.
  void report_owners(std::vector<OwnerMemory> owners);
  void report_lease_store(LeaseStore store);

  // GPUs whose processes matter now, by uuid, and a number that changes when their list
  // should be read anew; see device::Follow. Replaces the previous report.
  void follow(const std::map<std::string, std::uint64_t>& gpus);

  // Rules and intervals that may change at run time.
  void reload(const WatchConfig& config);

  // Begins to end the watching and returns at once; what was seen last stays
  // readable. The destructor does the same and waits, for the sampler too: a program
  // with more to end can let both happen at the same time.
  void begin_stop() noexcept;

  // Writes to disk what history has so far. False when that took longer than `limit_s`.
  bool flush(double limit_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::watch
