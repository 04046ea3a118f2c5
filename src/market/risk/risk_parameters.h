// The parameters and operands of the three operations, for CPU and GPU.
#pragma once

#include <cstddef>

#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/tail.h"

namespace sluice::market {

// in[0] has the series, in[1] the benchmark if there is one (shared), out[0] takes RiskMetrics.
struct RiskParameters {
  RiskOptions options;
  std::size_t bars;
  bool has_benchmark;
};

// in[0] has the series, out[0] takes TailRisk.
struct TailParameters {
  TailOptions options;
  std::size_t bars;
  double z, density;  // of the standard normal distribution at the cutoff
};

// in[0] has the data sets, out[0] takes the matrices, out[1] the shrinkage of each.
struct CovarianceParameters {
  CovarianceOptions options;
  std::size_t series, bars;
};

}  // namespace sluice::market
