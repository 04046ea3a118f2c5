// The standard normal distribution.
#pragma once

#include <cmath>

#include "market/math/fast_math.h"

namespace sluice::market {

double normal_density(double x);
double normal_cdf(double x);

// The inverse of normal_cdf() for p in (0, 1), by the math functions of M: on CPU and GPU. A rough
// start and two steps of third order; the error is below 1e-12.
template <class M>
SLUICE_HD double normal_quantile(double p) {
  const bool low = p < 0.5;
  const double tail = low ? p : 1 - p, t = std::sqrt(-2 * std::log(tail));
  double x = t - (2.30753 + 0.27061 * t) / (1 + t * (0.99229 + 0.04481 * t));
  for (int i = 0; i < 2; ++i) {
    const auto n = fast::normal<M>(x);
    const double e = (tail - n.above) / (n.bell * 0.3989422804014327);
    x -= e / (1 + 0.5 * x * e);
  }
  return low ? -x : x;
}

// The same on the host, exact to the last digits.
double normal_quantile(double p);

}  // namespace sluice::market
