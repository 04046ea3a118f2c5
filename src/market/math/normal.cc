#include "market/math/normal.h"

#include <cmath>

namespace sluice::market {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

double normal_quantile(double p) {
  // Newton's method with Halley's correction, from a start in the right tail of the right
  // sign; on the logarithm of the distribution, where it is nearly a parabola.
  const bool upper = p > 0.5;
  const double share = upper ? 1 - p : p;
  double x = -std::sqrt(-2 * std::log(2 * share));
  for (int i = 0; i < 20; ++i) {
    const double below = std::erfc(-x / std::sqrt(2.0)) / 2;
    const double slope = normal_density(x) / below;  // of log below
    const double miss = std::log(below / share);
    const double bend = slope * (-x - slope);  // second derivative
    const double step = miss / (slope - miss * bend / (2 * slope));
    x -= step;
    if (std::abs(step) <= 1e-16 * (1 + std::abs(x))) break;
  }
  return upper ? -x : x;
}

}  // namespace sluice::market
