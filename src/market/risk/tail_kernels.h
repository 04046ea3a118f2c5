// The CPU's vector loops over one series of returns.
#pragma once

#include <cstddef>

namespace sluice::market {

// Values at most `limit` to `out`, in their order, and how many. `out` must have kMaxLanes
// elements of padding, `capacity` in all. `present` counts all that are not missing.
inline constexpr std::size_t kMaxLanes = 32;
struct Kept {
  std::size_t kept, present;
};
Kept keep_at_most(const double* values, std::size_t n, double limit, double* out,
                  std::size_t capacity);

}  // namespace sluice::market
