// Bytes in a unit of memory, for sums that people read.
#pragma once

namespace sluice {

inline constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

}  // namespace sluice
