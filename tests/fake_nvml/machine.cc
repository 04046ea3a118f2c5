#include "machine.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace sluice::fake {

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void sleep_s(double seconds) {
  if (seconds <= 0) return;
  const double whole = std::floor(seconds);
  timespec left{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

Machine::Machine(Scenario scenario, std::int64_t epoch_ns, std::string state_file)
    : scenario_(std::move(scenario)), epoch_ns_(epoch_ns), settings_(std::move(state_file)) {}

double Machine::now_s() const {
  const double frozen = frozen_at_;
  if (frozen >= 0) return frozen;
  return std::max(0.0, static_cast<double>(monotonic_ns() - epoch_ns_) * 1e-9);
}

nvml::Return Machine::meet(const Event& event) {
  std::int64_t calls_before = 0;
  {
    const std::lock_guard lock(mutex_);
    calls_before = calls_[&event]++;
  }
  if (event.type != EventType::fail) sleep_s(event.seconds);
  const bool fails = event.type == EventType::fail && calls_before >= event.after_calls;
  return fails ? event.error : nvml::Return::success;
}

nvml::Return Machine::enter(std::string_view call, const GpuSpec* gpu) {
  const auto& missing = scenario_.missing;
  if (std::find(missing.begin(), missing.end(), call) != missing.end())
    return nvml::Return::function_not_found;
  const double t_s = now_s();
  nvml::Return result = nvml::Return::success;
  const auto meet_all = [&](const std::vector<Event>& events) {
    for (const Event& e : events) {
      const bool is_fault =
          e.type == EventType::hang || e.type == EventType::slow || e.type == EventType::fail;
      if (!is_fault || (e.call != "*" && e.call != call) || !e.when.is_active(t_s)) continue;
      if (const auto code = meet(e); code != nvml::Return::success) result = code;
    }
  };
  meet_all(scenario_.events);
  if (gpu == nullptr) return result;
  meet_all(gpu->events);
  return is_lost(*gpu, now_s()) ? nvml::Return::gpu_is_lost : result;
}

const GpuSpec* Machine::find(nvml::Device handle) const {
  for (const GpuSpec& gpu : scenario_.gpus)
    if (handle_of(gpu) == handle) return &gpu;
  return nullptr;
}

nvml::Device Machine::handle_of(const GpuSpec& gpu) {
  return reinterpret_cast<nvml::Device>(const_cast<GpuSpec*>(&gpu));
}

std::vector<const GpuSpec*> Machine::listed() const {
  std::vector<const GpuSpec*> all;
  const double t_s = now_s();
  for (const GpuSpec& gpu : scenario_.gpus)
    if (!is_hidden(gpu, t_s)) all.push_back(&gpu);
  return all;
}

Observed Machine::observe(const GpuSpec& gpu) {
  return fake::observe(gpu, settings_.of(gpu.uuid), now_s());
}

// Summed from where the last question left off; from the start when time went back.
Totals Machine::totals(const GpuSpec& gpu) {
  const double now = now_s();
  const Settings settings = settings_.of(gpu.uuid);
  const std::lock_guard lock(mutex_);
  Integral& sum = integrals_[&gpu];
  if (now < sum.t_s) sum = {};
  const double step = std::max(1.0, (now - sum.t_s) / 20'000);
  while (sum.t_s < now) {
    const double width = std::min(step, now - sum.t_s), middle = sum.t_s + width / 2;
    if (!is_lost(gpu, middle)) {
      sum.totals.energy_j += width * power_at(gpu, settings, middle);
      sum.totals.busy_s += width * utilization_at(gpu, middle) / 100;
    }
    sum.t_s += width;
  }
  return sum.totals;
}

nvml::Return Machine::change(const GpuSpec& gpu, const Settings& settings) {
  if (!scenario_.may_change) return nvml::Return::no_permission;
  return settings_.set(gpu.uuid, settings) ? nvml::Return::success : nvml::Return::unknown;
}

}  // namespace sluice::fake
