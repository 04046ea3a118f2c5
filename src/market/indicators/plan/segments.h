// Splits the series of a call into segments that can be computed independently.
#pragma once

#include <cstdint>

#include "compute/hd.h"
#include "market/indicators/plan/plan.h"

namespace sluice::market {

// Parameters of the operation, the same on every device.
struct IndicatorParameters {
  Plan plan;
  std::int64_t bars = 0;    // of each series
  std::int32_t floats = 0;  // 1: arrays of float, else of double; sums are double anyway
  std::int32_t unused = 0;
};

// Bars of a series. The rule starts at `from`; its outputs are valid in [first, end).
struct Segment {
  std::int64_t series, from, first, end;
};

// The number of segments of a series: 1, unless it is long compared with the bars that the rule
// reads before `first`. It depends on nothing else, so results do not depend on the machine. Where
// segments give the same bits in any case (plan.align), few series have more segments. A segment is
// at least `overhead` times longer than the bars before `first`.
std::int64_t segment_count(const Plan& plan, std::int64_t bars, std::int64_t series,
                           std::int64_t overhead);

// Segment `part` of `parts` of a series whose first complete bar is `begin`. `unchanged` is
// the number of bars before its first in which no input changed, needed for plan.ratio.
SLUICE_HD inline Segment segment_of(const Plan& plan, std::int64_t series, std::int64_t begin,
                                    std::int64_t bars, std::int64_t part, std::int64_t parts,
                                    std::int64_t unchanged = 0) {
  const std::int64_t usable = bars - begin, each = usable / parts, rest = usable % parts;
  const std::int64_t first = each * part + rest * part / parts;
  const std::int64_t end = each * (part + 1) + rest * (part + 1) / parts;
  std::int64_t from = first - unchanged - plan.halo - plan.lookback;
  if (part == 0 || from < 0) from = 0;
  if (plan.align > 0) from -= from % plan.align;
  return {series, begin + from, begin + first, begin + end};
}

}  // namespace sluice::market
