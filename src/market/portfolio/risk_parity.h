// Portfolios in which each asset has its share of the variance.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice::market {

// Weights above 0 that sum to 1. `shares` above 0, any scale; empty: equal ones. Unique
// for a positive definite covariance: the minimum of x'Cx / 2 - sum of share * log x (Spinu),
// by Newton's method. Throws invalid_argument for shares that do not fit, and when there
// is no such portfolio; `names` are for these messages and may be empty.
std::vector<double> risk_parity(std::span<const double> covariance,
                                std::span<const std::string> names, std::span<const double> shares);

}  // namespace sluice::market
