// Runs groups of segments, a segment in each SIMD lane: the part of a call that is compiled for
// each instruction set.
#pragma once

#include <cstddef>

#include "market/indicators/plan/segments.h"

namespace sluice::market {

struct SegmentGroupCall {
  const IndicatorParameters& parameters;
  void* const* in;
  void* const* out;
  const Segment* segments;
  std::size_t count;  // 1 to segments_per_group()
  bool large;         // the outputs do not fit the caches
  double* ring;       // aligned; plan.ring x segments_per_group() values
};

// The number of segments in a group on this machine, for this plan's rule.
std::size_t segments_per_group(const Plan& plan);

void run_segments(const SegmentGroupCall& call);

// One for each family of rules (rules/dispatch_rules-inl.h), in a source of its own. They run the
// call unless it is null, and return the segments of a group, or 0 for a rule of another family.
std::size_t simd_averages_macd(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_bands_deviation(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_rsi_momentum(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_atr_adx(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_stochastic_extremes(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_volume_cci(const Plan& plan, const SegmentGroupCall* call);
std::size_t simd_signals(const Plan& plan, const SegmentGroupCall* call);

// Computes square roots in SIMD lanes, 0 for values under `min_value`, by both algorithms: out[2 i]
// and out[2 i + 1]. For tests: both equal std::sqrt to the bit.
void roots_in_lanes(double min_value, const double* in, double* out, std::size_t count);

}  // namespace sluice::market
