// One consistent picture of the machine at one moment: what every route, the
// page, `sluice top` and the alert rules look at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "device/gpu.h"
#include "device/health/health.h"
#include "device/reading.h"
#include "watch/alert.h"

namespace sluice::watch {

struct GpuView {
  device::Gpu gpu;
  device::Readings readings;
  device::Health health;
  std::vector<device::Xid> xids;      // newest last, at most 32
  std::optional<Instant> sampled_at;  // newest answer of the driver
  bool ghost_utilization = false;
};

// Memory that someone holds: by a lease, or in a pool of this program.
struct OwnerMemory {
  enum class Kind { lease, pool };
  Kind kind = Kind::lease;
  std::string id;              // "lease-12", "pool-workspace": for rules and silences
  std::string owner;           // the lease's agent, the pool's name
  std::string title;           // "lease 12 of scout (pid 4711)"
  device::Timed used{};        // bytes
  std::uint64_t promised = 0;  // bytes; 0 where nothing is
};

// Problems of the leases on disk; both empty when there are none.
struct LeaseStore {
  std::string damage;   // what was found damaged, lines with their time
  std::string trouble;  // why no lease can be stored now
};

struct SamplerCost {
  double core_share = 0;      // of one core, 0..1, over the last minute
  double driver_share = 0;    // wall time inside driver calls, 0..1
  double interval_scale = 1;  // factor on the sampling intervals to stay within the budget
  std::uint64_t calls = 0, errors = 0, restarts = 0;
  std::int64_t pid = 0;  // 0 while no sampler runs
  // "running", "starting", "hung in nvmlInit_v2", "not needed: no NVIDIA library",
  // "no driver: NVML does not start: …"
  std::string state;
  std::string driver_trouble;  // why a driver that is installed does not start; else empty
};

struct Snapshot {
  std::uint64_t sequence = 0;  // grows by one per published snapshot
  Instant at{};
  WallTime wall{};
  device::Cpu cpu;
  device::Readings host;      // Scope::cpu
  device::Readings server;    // Scope::server
  std::vector<GpuView> gpus;  // ordered by bus
  bool has_all_gpus = true;   // false: some of this machine are still to come
  std::vector<OwnerMemory> owners;
  std::vector<Alert> alerts;  // active ones, worst first
  SamplerCost sampler;
  std::vector<std::string> notes;
  std::string history_trouble;  // why history is not written to disk; empty when all is well
  LeaseStore lease_store;
  std::string demo;  // scenario name, empty on real hardware
};

// Every time as an age in seconds next to its value; documented in docs/http.md.
Json to_json(const Snapshot& snapshot, Instant now);
Json to_json(const GpuView& gpu, Instant now);

}  // namespace sluice::watch
