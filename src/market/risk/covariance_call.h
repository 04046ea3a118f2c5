// What a call of the covariance operation carries: in[0] data sets, out[0] matrices, out[1]
// the share of the target in each.
#pragma once

#include "market/risk/covariance.h"

namespace sluice::market {

struct CovarianceParameters {
  CovarianceOptions options;
  std::size_t series, bars;
};

}  // namespace sluice::market
