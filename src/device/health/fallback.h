// Why calls that were for a GPU ran on the CPU, and how many of this process did: for the metric
// sluice_engine_fallbacks_total.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "device/gpu_status.h"

namespace sluice::device {

enum class Fallback {
  out_of_memory,  // of the GPU
  transient,      // it failed that call
  lost,           // it failed, and is not back
  unsupported,    // it cannot run that model, or not in these shapes
  vetoed,         // by those who watch it
};
inline constexpr std::size_t kFallbacks = 5;
std::string_view to_string(Fallback reason) noexcept;
Fallback fallback_of(GpuStatus status) noexcept;

// Thread-safe.
void count_fallback(Fallback reason) noexcept;
std::array<std::uint64_t, kFallbacks> all_fallbacks() noexcept;  // by reason

}  // namespace sluice::device
