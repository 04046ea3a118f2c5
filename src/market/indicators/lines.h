// How a call falls into lines: stretches of one series that can be computed on their own.
#pragma once

#include <cstdint>

#include "compute/hd.h"
#include "market/indicators/plan.h"

namespace sluice::market {

// What a call computes, whatever the device: parameters of the operation.
struct Batch {
  Plan plan;
  std::int64_t bars = 0;    // of each series
  std::int32_t floats = 0;  // 1: arrays of float, else of double; sums are double anyway
  std::int32_t unused = 0;
};

// The rule begins at `from`, and what it gives is right from `first` on, up to `end`.
struct Line {
  std::int64_t series, from, first, end;
};

// The number of lines for a series of so many bars: 1, unless it is long beside what the
// rule must see before `first`. Depends on nothing else, so results do not either; where
// lines give the same bits anyway (plan.align), few series make more of them. `overhead`
// is how many times longer than that a line must be.
std::int64_t lines_of(const Plan& plan, std::int64_t bars, std::int64_t series,
                      std::int64_t overhead);

// Line `part` of `parts` of a series whose first complete bar is `begin`. `still`: bars
// before its first in which nothing moved, where plan.ratio asks for them.
SLUICE_HD inline Line line_of(const Plan& plan, std::int64_t series, std::int64_t begin,
                              std::int64_t bars, std::int64_t part, std::int64_t parts,
                              std::int64_t still = 0) {
  const std::int64_t usable = bars - begin, whole = usable / parts, rest = usable % parts;
  const std::int64_t first = whole * part + rest * part / parts;
  const std::int64_t end = whole * (part + 1) + rest * (part + 1) / parts;
  std::int64_t from = first - still - plan.halo - plan.lookback;
  if (part == 0 || from < 0) from = 0;
  if (plan.align > 0) from -= from % plan.align;
  return {series, begin + from, begin + first, begin + end};
}

}  // namespace sluice::market
