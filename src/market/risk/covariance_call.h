// Parameters of the covariance operation. Operands: in[0] data sets, out[0] matrices, out[1] the
// shrinkage of each.
#pragma once

#include "market/risk/covariance.h"

namespace sluice::market {

struct CovarianceParameters {
  CovarianceOptions options;
  std::size_t series, bars;
};

}  // namespace sluice::market
