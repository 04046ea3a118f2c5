#include "market/indicators/cpu/simd_segments.h"

#include <initializer_list>

namespace sluice::market {
namespace {

std::size_t run_family(const Plan& plan, const SegmentGroupCall* call) {
  for (const auto family : {simd_averages_macd, simd_bands_deviation, simd_rsi_momentum,
                            simd_atr_adx, simd_stochastic_extremes, simd_volume_cci, simd_signals})
    if (const std::size_t segments = family(plan, call); segments > 0) return segments;
  return 1;
}

}  // namespace

std::size_t segments_per_group(const Plan& plan) { return run_family(plan, nullptr); }

void run_segments(const SegmentGroupCall& call) { (void)run_family(call.parameters.plan, &call); }

}  // namespace sluice::market
