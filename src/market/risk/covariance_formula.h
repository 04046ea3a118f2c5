// Covariance and shrinkage from sums over all bars, for CPU and GPU.
#pragma once

#include "compute/hd.h"
#include "market/risk/covariance.h"

namespace sluice::market::formula {

// Takes sums about each series' own mean over the bars that both have: of the products, of the two
// series, and the count (or weight).
SLUICE_HD inline double covariance_of(double xy, double x, double y, double n,
                                      const CovarianceOptions& o) {
  const double value = o.kind == CovarianceKind::ewma ? xy / n : (xy - x * y / n) / (n - o.ddof);
  return value * o.periods_per_year;
}

// `total`: sum of the variances; `squares`: of all squared covariances, both over n and of
// `series` series; `fourth`: sum over the bars of (sum of squared distances)^2. One series is
// its own target: 0, as in scikit-learn, and not what rounding leaves of 0 / 0.
SLUICE_HD inline double ledoit_wolf_shrinkage(double total, double squares, double fourth,
                                              double series, double n) {
  if (series < 2) return 0;
  const double mu = total / series;
  double beta = (fourth / n - squares) / (series * n);
  const double delta = (squares - 2 * mu * total + series * mu * mu) / series;
  beta = beta < delta ? beta : delta;
  return beta > 0 && delta > 0 ? beta / delta : 0;
}

}  // namespace sluice::market::formula
