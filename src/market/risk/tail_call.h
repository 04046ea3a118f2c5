// Parameters of the tail operation. Operands: in[0] the series, out[0] TailRisk.
#pragma once

#include "market/risk/tail.h"

namespace sluice::market {

struct TailParameters {
  TailOptions options;
  std::size_t bars;
  double z, density;  // of the standard normal distribution at the cutoff
};

}  // namespace sluice::market
