// A machine with two GPUs, one well and one lost, for tests of what is said about it.
#pragma once

#include "watch/snapshot.h"

namespace sluice::serve {

inline constexpr Instant kNow{std::chrono::seconds(1000)};
inline Instant ago(double s) {
  return kNow - std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

inline watch::GpuView gpu_for_tests(std::string uuid, std::string name) {
  using device::Metric;
  watch::GpuView g;
  g.gpu.vendor = device::Vendor::nvidia;
  g.gpu.uuid = std::move(uuid);
  g.gpu.bus = "0000:04:00.0";
  g.gpu.name = std::move(name);
  g.gpu.driver_version = "570.10";
  g.sampled_at = ago(0.5);
  g.health.since = ago(60);
  constexpr double gib = 1 << 30;
  g.readings.set(Metric::utilization, 85, ago(0.5));
  g.readings.set(Metric::memory_total, 16 * gib, ago(0.5));
  g.readings.set(Metric::memory_used, 6 * gib, ago(0.5));
  g.readings.set(Metric::memory_reserved, 2 * gib, ago(0.5));
  g.readings.set(Metric::memory_free, 8 * gib, ago(0.5));
  g.readings.set(Metric::temperature, 72, ago(3));
  g.readings.set(Metric::energy, 1234.5, ago(3));
  g.readings.set(Metric::pcie_replays, 2, ago(3));
  g.readings.processes = {{4711, "py\xffthon", "ann", "compute", 1u << 30, 80.0, {}}};
  g.readings.processes_at = ago(7);
  return g;
}

inline watch::Snapshot snapshot_for_tests() {
  watch::Snapshot s;
  s.sequence = 7;
  s.at = ago(0.25);
  s.cpu.usable_cores = 2;
  s.host.set(device::Metric::cpu_utilization, 12.5, ago(1));
  s.gpus.push_back(gpu_for_tests("GPU-a", "NVIDIA H200"));
  s.gpus.push_back(gpu_for_tests("GPU-b", "Tesla \"P4\"\n"));
  s.gpus[1].health.state = device::HealthState::lost;
  s.gpus[1].health.cause = "GPU has fallen off the bus";
  s.sampler.state = "running";
  s.sampler.pid = 1;
  s.sampler.calls = 99;
  return s;
}

}  // namespace sluice::serve
