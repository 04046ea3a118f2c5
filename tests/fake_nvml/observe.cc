#include "observe.h"

#include <algorithm>
#include <cmath>

namespace sluice::fake {

namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr unsigned kIdleMhz = 345;

template <class F>
void each_active(const GpuSpec& gpu, EventType type, double t_s, F f) {
  for (const Event& e : gpu.events)
    if (e.type == type && e.when.is_active(t_s)) f(e);
}

bool any_active(const GpuSpec& gpu, EventType type, double t_s) {
  bool any = false;
  each_active(gpu, type, t_s, [&](const Event&) { any = true; });
  return any;
}

double idle_power(const GpuSpec& gpu) { return 0.1 * gpu.power_w; }

double limit_of(const GpuSpec& gpu, const Settings& settings) {
  return settings.power_limit_w.value_or(gpu.power_w);
}

// Before the limit cuts it.
double requested_power(const GpuSpec& gpu, double t_s) {
  if (any_active(gpu, EventType::ghost, t_s)) return idle_power(gpu);
  if (gpu.load.power) return std::clamp(gpu.load.power->at(t_s), 0.0, 5000.0);
  const double busy = utilization_at(gpu, t_s) / 100;
  return idle_power(gpu) + busy * (0.94 * gpu.power_w - idle_power(gpu));
}

// A script may set any number; the card's limits bound it.
std::uint64_t bytes_of(double gib, const GpuSpec& gpu) {
  return static_cast<std::uint64_t>(
      std::clamp(gib * kGiB, 0.0, static_cast<double>(gpu.memory_bytes)));
}

void observe_processes(const GpuSpec& gpu, Observed& now) {
  if (any_active(gpu, EventType::ghost, now.t_s)) return;
  for (const ProcessSpec& p : gpu.processes) {
    if (!p.when.is_active(now.t_s)) continue;
    now.processes.push_back({&p, bytes_of(p.memory_gib.at(now.t_s), gpu),
                             std::clamp(p.utilization.at(now.t_s), 0.0, 100.0)});
  }
}

void observe_memory(const GpuSpec& gpu, Observed& now) {
  now.memory_reserved = gpu.memory_bytes / 160;
  std::uint64_t used = 3 * kMiB;
  for (const ProcessNow& p : now.processes) used += p.memory;
  if (gpu.load.memory_gib && !any_active(gpu, EventType::ghost, now.t_s))
    used = bytes_of(gpu.load.memory_gib->at(now.t_s), gpu);
  now.memory_used = std::min(used, gpu.memory_bytes - now.memory_reserved);
  now.memory_free = gpu.memory_bytes - now.memory_reserved - now.memory_used;
}

unsigned limited(double mhz, std::optional<std::pair<unsigned, unsigned>> range) {
  if (range) mhz = std::clamp(mhz, double(range->first), double(range->second));
  return static_cast<unsigned>(std::lround(mhz));
}

void observe_heat_and_clocks(const GpuSpec& gpu, const Settings& settings, Observed& now) {
  const double requested = requested_power(gpu, now.t_s);
  now.power_limit_w = limit_of(gpu, settings);
  now.power_w = std::min(requested, now.power_limit_w);
  now.temperature = 31 + 46 * (gpu.power_w > 0 ? now.power_w / gpu.power_w : 0);
  if (gpu.load.temperature)
    now.temperature = std::clamp(gpu.load.temperature->at(now.t_s), -100.0, 300.0);

  const bool busy = now.utilization >= 1 && !any_active(gpu, EventType::ghost, now.t_s);
  double mhz = busy ? gpu.sm_mhz : std::min(kIdleMhz, gpu.sm_mhz);
  if (gpu.load.sm_clock) mhz = std::clamp(gpu.load.sm_clock->at(now.t_s), 0.0, double(gpu.sm_mhz));
  if (!busy) now.throttle_bits |= nvml::throttle::kIdle;
  if (requested > now.power_limit_w + 0.5) {
    now.throttle_bits |= nvml::throttle::kPowerCap;
    mhz *= std::max(0.3, now.power_limit_w / requested);
  }
  each_active(gpu, EventType::throttle, now.t_s, [&](const Event& e) {
    now.throttle_bits |= e.bits;
    mhz *= e.clock_factor;
    if (e.temperature) now.temperature = *e.temperature;
  });
  if (settings.application_clocks) {
    mhz = std::min(mhz, double(settings.application_clocks->second));
    if (busy) now.throttle_bits |= nvml::throttle::kApplicationClocks;
  }
  now.sm_mhz = limited(mhz, settings.sm_lock);
  const double memory_mhz =
      settings.application_clocks ? settings.application_clocks->first : gpu.memory_mhz;
  now.memory_mhz = limited(memory_mhz, settings.memory_lock);
  now.fan = std::clamp(gpu.load.fan ? gpu.load.fan->at(now.t_s) : now.temperature, 0.0, 100.0);
}

void count_errors(const GpuSpec& gpu, Observed& now) {
  for (const Event& e : gpu.events) {
    const std::int64_t times = e.when.occurrences(now.t_s);
    if (times == 0) continue;
    switch (e.type) {
      case EventType::ecc:
        now.ecc_corrected += times * e.corrected;
        now.ecc_uncorrected += times * e.uncorrected;
        break;
      case EventType::rows:
        now.rows_corrected += times * e.corrected;
        now.rows_uncorrected += times * e.uncorrected;
        now.rows_pending |= e.pending && e.when.is_active(now.t_s);
        now.rows_failed |= e.failed && e.when.is_active(now.t_s);
        break;
      case EventType::retired_pages: now.retired_pages += times * e.count; break;
      case EventType::nvlink_errors: now.nvlink_errors += times * e.count; break;
      case EventType::pcie_replays: now.pcie_replays += times * e.count; break;
      case EventType::link_down:
        if (e.when.is_active(now.t_s)) now.links_down |= std::uint64_t{1} << e.link;
        break;
      case EventType::recovery:
        if (e.when.is_active(now.t_s)) now.recovery_action = e.action;
        break;
      default: break;
    }
  }
}

}  // namespace

double utilization_at(const GpuSpec& gpu, double t_s) {
  if (any_active(gpu, EventType::ghost, t_s)) return 100;
  return std::clamp(gpu.load.utilization.at(t_s), 0.0, 100.0);
}

double power_at(const GpuSpec& gpu, const Settings& settings, double t_s) {
  return std::min(requested_power(gpu, t_s), limit_of(gpu, settings));
}

Observed observe(const GpuSpec& gpu, const Settings& settings, double t_s) {
  Observed now;
  now.t_s = t_s;
  now.utilization = utilization_at(gpu, t_s);
  const bool ghost = any_active(gpu, EventType::ghost, t_s);
  now.memory_activity = ghost ? 0
                        : gpu.load.memory_activity
                            ? std::clamp(gpu.load.memory_activity->at(t_s), 0.0, 100.0)
                            : 0.55 * now.utilization;
  observe_processes(gpu, now);
  observe_memory(gpu, now);
  observe_heat_and_clocks(gpu, settings, now);
  count_errors(gpu, now);
  return now;
}

bool is_lost(const GpuSpec& gpu, double t_s) { return any_active(gpu, EventType::lost, t_s); }

bool is_hidden(const GpuSpec& gpu, double t_s) {
  bool hidden = false;
  each_active(gpu, EventType::lost, t_s, [&](const Event& e) {
    const double began = e.when.start_of(e.when.occurrences(t_s) - 1);
    hidden |= t_s - began >= e.hidden_after_s;
  });
  return hidden;
}

bool passes_canary(const GpuSpec& gpu, double t_s) {
  bool passes = !is_lost(gpu, t_s);
  each_active(gpu, EventType::canary, t_s, [&](const Event& e) { passes = passes && e.passes; });
  return passes;
}

double highest_power_w(const GpuSpec& gpu) { return gpu.fan ? 1.1 * gpu.power_w : gpu.power_w; }

double lowest_power_w(const GpuSpec& gpu) { return std::round(0.4 * gpu.power_w); }

}  // namespace sluice::fake
