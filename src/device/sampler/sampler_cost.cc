#include "device/sampler/sampler_cost.h"

#include <algorithm>

namespace sluice::device {

namespace {

std::int64_t ns(Steady::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

// "This card has no fan" is an answer; so is "nothing new".
bool is_error(nvml::Return code) {
  using enum nvml::Return;
  return code != success && code != not_supported && code != function_not_found &&
         code != insufficient_size && code != not_found && code != no_data && code != timeout &&
         code != invalid_argument;
}

}  // namespace

double next_interval_scale(double interval_scale, double share, double budget) noexcept {
  const double ratio = share / budget;
  if (ratio > 1) return std::min(interval_scale * std::min(ratio, 4.0), kMaxIntervalScale);
  if (ratio > 0.8) return interval_scale;
  return std::max({1.0, interval_scale * ratio / 0.8, interval_scale * 0.8});
}

void CallWatch::before(const char* function) noexcept {
  since_ns_.store(ns(Steady::now().time_since_epoch()), std::memory_order_relaxed);
  function_.store(function, std::memory_order_release);
}

void CallWatch::after(const char*, nvml::Return code, Steady::duration took) noexcept {
  constexpr std::int64_t kMaxNs = 100'000'000;
  function_.store(nullptr, std::memory_order_release);
  ++calls_;
  if (is_error(code)) ++errors_;
  driver_ns_ += std::min(ns(took), kMaxNs);
}

std::optional<CallWatch::Call> CallWatch::now() const noexcept {
  const auto* function = function_.load(std::memory_order_acquire);
  if (function == nullptr) return std::nullopt;
  // May already be the next call's time: then the age is too small, never too large.
  const auto since = since_ns_.load(std::memory_order_relaxed);
  return Call{
      function,
      Instant(std::chrono::duration_cast<Steady::duration>(std::chrono::nanoseconds(since)))};
}

void CostMeter::add(Instant now, const Spent& spent, double budget, double window_s) {
  const Point point{now, spent};
  minute_.push_back(point);
  while (seconds_between(minute_.front().at, now) > 60) minute_.pop_front();
  const auto& first = minute_.front();
  if (const double elapsed = seconds_between(first.at, now); elapsed > 0) {
    core_share_ = (spent.cpu_s - first.spent.cpu_s) / elapsed;
    driver_share_ = (spent.driver_s - first.spent.driver_s) / elapsed;
  }
  if (!judged_) judged_ = point;
  const double elapsed = seconds_between(judged_->at, now);
  if (elapsed < window_s) return;
  const auto& before = judged_->spent;
  const double cpu = spent.cpu_s - before.cpu_s - (spent.early_cpu_s - before.early_cpu_s);
  const double driver =
      spent.driver_s - before.driver_s - (spent.early_driver_s - before.early_driver_s);
  const double used = std::max(cpu, driver);
  interval_scale_ = next_interval_scale(interval_scale_, used / elapsed, budget);
  judged_ = point;
}

}  // namespace sluice::device
