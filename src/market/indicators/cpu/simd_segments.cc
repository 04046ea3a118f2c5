#include "market/indicators/cpu/simd_segments.h"

#include <initializer_list>

namespace sluice::market {
namespace {

// The one that has the plan's rule.
std::size_t run_lanes(const Plan& plan, const GroupCall* call) {
  for (const auto lanes :
       {lanes_of_averages, lanes_of_spreads, lanes_of_changes, lanes_of_ranges, lanes_of_extremes})
    if (const std::size_t segments = lanes(plan, call); segments > 0) return segments;
  return 1;
}

}  // namespace

std::size_t segments_per_group(const Plan& plan) { return run_lanes(plan, nullptr); }

void run_segments(const GroupCall& call) { (void)run_lanes(call.batch.plan, &call); }

}  // namespace sluice::market
