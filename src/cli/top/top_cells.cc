#include "cli/top/top_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace sluice::cli {

namespace {

using device::Metric;

// Readings come every second or every few, longer when the sampler scales up
// them; several missed in a row are too old.
bool is_old(const device::Timed& reading, Metric metric, const Scene& scene) {
  const bool quick = metric == Metric::utilization || metric == Metric::memory_used ||
                     metric == Metric::cpu_utilization;
  const double scale = std::clamp(scene.snapshot.sampler.interval_scale, 1.0, 10.0);
  return scene.all_old || seconds_between(reading.at, scene.now) > (quick ? 5 : 20) * scale;
}

}  // namespace

Ink ink_of(device::HealthState state) {
  switch (state) {
    case device::HealthState::healthy: return Ink::good;
    case device::HealthState::degraded: return Ink::warn;
    case device::HealthState::lost: return Ink::bad;
    case device::HealthState::probation: return Ink::accent;
  }
  return Ink::plain;
}

std::optional<double> fresh(const device::Readings& readings, Metric metric, const Scene& scene) {
  const auto& reading = readings.at(metric);
  if (!reading || is_old(*reading, metric, scene)) return std::nullopt;
  return reading->value;
}

std::string shown_value(const device::Readings& readings, Metric metric, const Scene& scene,
                        const char* format) {
  const auto& reading = readings.at(metric);
  if (!reading) return "-";
  std::string text = is_old(*reading, metric, scene) ? "~" : "";
  return text.append(fmt::format(fmt::runtime(format), reading->value));
}

std::string gauge(std::optional<double> value, double full, int width, Pen pen) {
  const double share = value && full > 0 ? *value / full : 0;
  const auto ink = share >= 0.95 ? Ink::bad : share >= 0.8 ? Ink::warn : Ink::good;
  return bar(share, width, pen, ink);
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:3.0f} %", *value) : "  - %";
}

std::string of_gib(double used, double total) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  return fmt::format("{:.1f}/{:.1f} GiB", used / kGib, total / kGib);
}

std::string age_text(Instant since, Instant now) {
  const double age = std::max(seconds_between(since, now), 0.0);
  return age < 60 ? fmt::format("{:.0f} s", std::floor(age)) : human_duration(age);
}

std::vector<std::optional<double>> past_of(const Scene& scene, const std::string& device) {
  const auto found = scene.state.past.find(device);
  if (found == scene.state.past.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace sluice::cli
