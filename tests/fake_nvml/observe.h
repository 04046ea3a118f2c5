// The readings of a fake GPU at a moment: a pure function of its script, its settings
// and the time.
#pragma once

#include <vector>

#include "scenario.h"
#include "settings.h"

namespace sluice::fake {

struct ProcessNow {
  const ProcessSpec* spec;
  std::uint64_t memory;  // bytes
  double utilization;    // %
};

struct Observed {
  double t_s = 0;
  double utilization = 0, memory_activity = 0;  // %
  std::uint64_t memory_reserved = 0, memory_used = 0, memory_free = 0;
  double temperature = 0, power_w = 0, power_limit_w = 0, fan = 0;
  unsigned sm_mhz = 0, memory_mhz = 0;
  std::uint64_t throttle_bits = 0;
  std::vector<ProcessNow> processes;

  std::int64_t ecc_corrected = 0, ecc_uncorrected = 0;
  std::int64_t rows_corrected = 0, rows_uncorrected = 0;
  bool rows_pending = false, rows_failed = false;
  std::int64_t retired_pages = 0, nvlink_errors = 0, pcie_replays = 0;
  std::uint64_t links_down = 0;  // a bit per link
  int recovery_action = 0;
};

inline constexpr double kSlowdownCelsius = 90, kShutdownCelsius = 95;

Observed observe(const GpuSpec& gpu, const Settings& settings, double t_s);

// Just the two that are integrated over time.
double utilization_at(const GpuSpec& gpu, double t_s);
double power_at(const GpuSpec& gpu, const Settings& settings, double t_s);

bool is_lost(const GpuSpec& gpu, double t_s);
bool is_hidden(const GpuSpec& gpu, double t_s);  // lost so long that it is not listed
bool passes_canary(const GpuSpec& gpu, double t_s);

double highest_power_w(const GpuSpec& gpu);
double lowest_power_w(const GpuSpec& gpu);

}  // namespace sluice::fake
