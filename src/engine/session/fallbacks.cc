#include "engine/session/fallbacks.h"

#include <fmt/core.h>

#include <numeric>

#include "base/log.h"

namespace sluice::engine {
namespace {

constexpr double kBetweenWarnings_s = 60;

std::size_t at(Fallback reason) { return static_cast<std::size_t>(reason); }

}  // namespace

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
  device::count_fallback(reason);
  std::uint64_t since = 0;
  {
    const Lock lock(mutex_);
    const std::uint64_t count = ++counts_.by_reason[at(reason)];
    counts_.last = why;
    Told& told = told_[at(reason)];
    if (told.at && seconds_between(*told.at, now) < kBetweenWarnings_s) return;
    since = count - told.count;
    told = {now, count};
  }
  warn_(since == 1 ? fmt::format("a model runs on the CPU instead of the GPU ({}): {}",
                                 to_string(reason), why)
                   : fmt::format("{} calls ran on the CPU instead of the GPU ({}), the last: {}",
                                 since, to_string(reason), why));
}

FallbackCounts Fallbacks::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

}  // namespace sluice::engine
