// The scenario as a running machine: its clock, its faults in calls, its settings.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "observe.h"

namespace sluice::fake {

struct Totals {
  double energy_j = 0;
  double busy_s = 0;  // utilisation integrated: stands for bytes over NVLink
};

// Thread-safe.
class Machine {
 public:
  // `epoch_ns` is the CLOCK_MONOTONIC time of the scenario's second 0.
  Machine(Scenario scenario, std::int64_t epoch_ns, std::string state_file);

  const Scenario& scenario() const noexcept { return scenario_; }
  double now_s() const;
  void freeze(double t_s) { frozen_at_ = t_s; }
  bool is_frozen() const { return frozen_at_ >= 0; }

  // Applies the scripted faults to this call: sleeps for slow and hanging calls, then returns
  // success or the code to answer with. `gpu` is null for calls that are about no GPU.
  nvml::Return enter(std::string_view call, const GpuSpec* gpu);

  // The GPU of a handle, or null.
  const GpuSpec* find(nvml::Device handle) const;
  static nvml::Device handle_of(const GpuSpec& gpu);
  std::vector<const GpuSpec*> listed() const;

  Observed observe(const GpuSpec& gpu);
  Totals totals(const GpuSpec& gpu);
  Settings settings(const GpuSpec& gpu) { return settings_.of(gpu.uuid); }
  nvml::Return change(const GpuSpec& gpu, const Settings& settings);

 private:
  struct Integral {
    double t_s = 0;
    Totals totals;
  };
  nvml::Return meet(const Event& event);

  const Scenario scenario_;
  const std::int64_t epoch_ns_;
  std::atomic<double> frozen_at_{-1};
  SettingsStore settings_;
  std::mutex mutex_;
  std::map<const Event*, std::int64_t> calls_;    // guarded by mutex_
  std::map<const GpuSpec*, Integral> integrals_;  // guarded by mutex_
};

std::int64_t monotonic_ns();
void sleep_s(double seconds);

}  // namespace sluice::fake
