// The standard normal distribution.
#pragma once

namespace sluice::market {

double normal_density(double x);

// The x that a share `p` of it lies under; to the last digits. p in (0, 1).
double normal_quantile(double p);

}  // namespace sluice::market
