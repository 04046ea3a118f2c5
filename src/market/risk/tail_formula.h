// The order statistics that a tail needs, and VaR and CVaR from them, for CPU and GPU.
#pragma once

#include <cmath>

#include "compute/hd.h"
#include "market/risk/tail.h"

namespace sluice::market::formula {

// 0 <= rank < n; the value is at least `below` and uses the next one when share > 0.
struct TailRank {
  std::size_t rank;
  double share;       // interpolation weight of the next value
  std::size_t worst;  // values that the CVaR is the mean of; 0: those under VaR
};

SLUICE_HD inline TailRank tail_rank(std::size_t n, const TailOptions& o) {
  const double last = static_cast<double>(n - 1);
  if (o.convention == TailConvention::empyrical) {
    const double at = last * o.cutoff;
    const auto rank = static_cast<std::size_t>(at);
    return {rank, at - static_cast<double>(rank), rank + 1};
  }
  double k = ceil(static_cast<double>(n) * o.cutoff * (1 - 1e-15)) - 1;
  k = k < 0 ? 0 : k > last ? last : k;
  return {static_cast<std::size_t>(k), 0, 0};
}

// The same formula as numpy, so that the last bit agrees.
SLUICE_HD inline double between(double a, double b, double share) {
  const double d = b - a;
  return share < 0.5 ? a + d * share : b - d * (1 - share);
}

// Turns `value`, a return, into a loss with the sign and the floor of the convention.
SLUICE_HD inline double as_loss(double value) { return value < 0 ? -value : 0; }

// `worst_sum` of `worst` values, those that tail_rank asks for.
SLUICE_HD inline TailRisk finish_tail(std::size_t n, double value, double worst_sum,
                                      std::size_t worst, TailConvention convention) {
  const double mean = worst_sum / static_cast<double>(worst);  // NaN: there is none
  if (convention == TailConvention::empyrical) return {static_cast<double>(n), value, mean};
  return {static_cast<double>(n), as_loss(value), worst > 0 ? as_loss(mean) : mean};
}

SLUICE_HD inline TailRisk normal_tail(double n, double mean, double deviation, double z,
                                      double density, const TailOptions& o) {
  const double var = mean + z * deviation, cvar = mean - deviation * density / o.cutoff;
  if (o.convention == TailConvention::empyrical) return {n, var, cvar};
  return {n, as_loss(var), as_loss(cvar)};
}

}  // namespace sluice::market::formula
