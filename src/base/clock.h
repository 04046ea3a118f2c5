// Two clocks. Instant is CLOCK_MONOTONIC, which every process of this machine
// shares, so an age can be taken across the pipe to the sampler. WallTime is for
// people and for what is stored.
#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

using Steady = std::chrono::steady_clock;
using Instant = Steady::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Seconds = std::chrono::duration<double>;

inline double seconds_between(Instant from, Instant to) { return Seconds(to - from).count(); }

inline std::int64_t unix_ms(WallTime t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

}  // namespace sluice
