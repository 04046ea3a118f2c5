#include "compute/fallback/fallback_counts.h"

#include <fmt/core.h>

#include <atomic>
#include <numeric>

#include "base/log.h"

namespace sluice::compute {
namespace {

constexpr double kBetweenWarnings_s = 60;

std::array<std::atomic<std::uint64_t>, kFallbacks> all_of_process{};

std::size_t at(Fallback reason) { return static_cast<std::size_t>(reason); }

}  // namespace

std::string_view to_string(Fallback reason) noexcept {
  switch (reason) {
    case Fallback::out_of_memory: return "out_of_memory";
    case Fallback::transient: return "transient";
    case Fallback::lost: return "lost";
    case Fallback::unsupported: return "unsupported";
    case Fallback::vetoed: break;
  }
  return "vetoed";
}

Fallback fallback_of(device::GpuStatus status) noexcept {
  switch (status) {
    case device::GpuStatus::out_of_memory: return Fallback::out_of_memory;
    case device::GpuStatus::transient: return Fallback::transient;
    case device::GpuStatus::lost: return Fallback::lost;
    case device::GpuStatus::ok:
    case device::GpuStatus::refused: break;
  }
  return Fallback::unsupported;
}

std::array<std::uint64_t, kFallbacks> process_fallbacks() noexcept {
  std::array<std::uint64_t, kFallbacks> counts{};
  for (std::size_t i = 0; i < kFallbacks; ++i) counts[i] = all_of_process[i];
  return counts;
}

std::uint64_t FallbackCounts::total() const {
  return std::accumulate(by_reason.begin(), by_reason.end(), std::uint64_t{0});
}

std::string describe(const FallbackCounts& counts) {
  const std::uint64_t all = counts.total();
  if (all == 0) return {};
  std::string reasons;
  for (std::size_t i = 0; i < kFallbacks; ++i)
    if (counts.by_reason[i] > 0)
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ",
                             to_string(static_cast<Fallback>(i)), counts.by_reason[i]);
  return fmt::format("{} call{} for the GPU ran on the CPU ({}): {}", all, all == 1 ? "" : "s",
                     reasons, counts.last);
}

Fallbacks::Fallbacks(Warn warn)
    : warn_(warn ? std::move(warn) : [](const std::string& text) { log::warn("{}", text); }) {}

void Fallbacks::note(Fallback reason, const std::string& why, Instant now) {
  ++all_of_process[at(reason)];
  std::uint64_t since = 0;
  {
    const Lock lock(mutex_);
    const std::uint64_t count = ++counts_.by_reason[at(reason)];
    counts_.last = why;
    LastWarning& warned = last_warning_[at(reason)];
    if (warned.at && seconds_between(*warned.at, now) < kBetweenWarnings_s) return;
    since = count - warned.count;
    warned = {now, count};
  }
  warn_(since == 1 ? fmt::format("a call ran on the CPU instead of the GPU ({}): {}",
                                 to_string(reason), why)
                   : fmt::format("{} calls ran on the CPU instead of the GPU ({}), the last: {}",
                                 since, to_string(reason), why));
}

FallbackCounts Fallbacks::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

}  // namespace sluice::compute
