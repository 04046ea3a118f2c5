// The CPU's vector loops over one series of returns.
#pragma once

#include <cstddef>

namespace sluice::market {

// Copies the values of at most `limit` to `out`, in their order, and returns their number. `out`
// must have kMaxLanes elements of padding, `capacity` in all. `present` counts all values that are
// not missing.
inline constexpr std::size_t kMaxLanes = 32;
struct Kept {
  std::size_t kept, present;
};
Kept keep_at_most(const double* values, std::size_t n, double limit, double* out,
                  std::size_t capacity);

}  // namespace sluice::market
