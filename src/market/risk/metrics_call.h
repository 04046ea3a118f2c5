// Parameters of the risk operation. Operands: in[0] the series, in[1] the benchmark where
// there is one (shared), out[0] RiskMetrics.
#pragma once

#include "market/risk/metrics.h"

namespace sluice::market {

struct RiskParameters {
  RiskOptions options;
  std::size_t bars;
  bool has_benchmark;
};

}  // namespace sluice::market
