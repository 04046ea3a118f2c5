// A clock fine enough for one allocation: the processor's own counter where there is one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace sluice::memory {

inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  unsigned core = 0;
  return __rdtscp(&core);
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Measured once, over 20 ms.
inline double seconds_per_tick() {
  static const double value = [] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const auto first = ticks();
    while (Clock::now() - begin < std::chrono::milliseconds(20)) {
    }
    const auto last = ticks();
    return std::chrono::duration<double>(Clock::now() - begin).count() /
           static_cast<double>(last - first);
  }();
  return value;
}

// The median overhead of two reads.
inline std::uint64_t ticks_cost() {
  std::vector<std::uint64_t> costs(1001);
  for (auto& cost : costs) {
    const auto begin = ticks();
    cost = ticks() - begin;
  }
  std::nth_element(costs.begin(), costs.begin() + 500, costs.end());
  return costs[500];
}

}  // namespace sluice::memory
