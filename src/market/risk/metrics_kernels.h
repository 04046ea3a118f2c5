// The CPU's vector loops over one series: sums of blocks, which the caller joins.
#pragma once

#include <cstddef>

#include "market/risk/metrics_formula.h"

namespace sluice::market {

// A block is four chunks side by side, one in each lane of a vector.
inline constexpr std::size_t kRiskLanes = 4, kRiskChunk = 128;
inline constexpr std::size_t kRiskBlock = kRiskLanes * kRiskChunk;

struct RiskBlock {
  formula::Moments moments;
  formula::CoMoments with;
  double below = 0;
  formula::Path path[kRiskLanes];
};

struct RiskSeries {
  const double* values;
  const double* benchmark;  // null: none
  std::size_t bars;
  bool prices;
  double required_return;
};

// Scans the blocks [begin, end) into out[0 ...].
void scan_blocks(const RiskSeries& series, std::size_t begin, std::size_t end, RiskBlock* out);

}  // namespace sluice::market
