#include "device/health/fallback.h"

#include <atomic>

namespace sluice::device {
namespace {

std::array<std::atomic<std::uint64_t>, kFallbacks> process_fallbacks{};

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

Fallback fallback_of(GpuStatus status) noexcept {
  switch (status) {
    case GpuStatus::out_of_memory: return Fallback::out_of_memory;
    case GpuStatus::transient: return Fallback::transient;
    case GpuStatus::lost: return Fallback::lost;
    case GpuStatus::ok:
    case GpuStatus::refused: break;
  }
  return Fallback::unsupported;
}

void count_fallback(Fallback reason) noexcept {
  ++process_fallbacks[static_cast<std::size_t>(reason)];
}

std::array<std::uint64_t, kFallbacks> all_fallbacks() noexcept {
  std::array<std::uint64_t, kFallbacks> counts{};
  for (std::size_t i = 0; i < kFallbacks; ++i) counts[i] = process_fallbacks[i];
  return counts;
}

}  // namespace sluice::device
