#include "market/math/normal.h"

#include <algorithm>

namespace sluice::market {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

double normal_quantile(double p) {
  // Newton's method with Halley's correction in the lower tail, on the logarithm of the
  // distribution, where it is nearly a parabola.
  const double tail = std::min(p, 1 - p);
  double x = normal_quantile<fast::HostMath>(tail);
  for (int i = 0; i < 4; ++i) {
    const double below = normal_cdf(x);
    const double slope = normal_density(x) / below;  // of log below
    const double miss = std::log(below / tail);
    const double curvature = slope * (-x - slope);  // second derivative
    const double step = miss / (slope - miss * curvature / (2 * slope));
    x -= step;
    if (std::abs(step) <= 1e-16 * (1 + std::abs(x))) break;
  }
  return p > 0.5 ? -x : x;
}

}  // namespace sluice::market
