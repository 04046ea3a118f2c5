// Covariance matrices of many series of returns.
#pragma once

#include <cstdint>
#include <span>

#include "compute/compute.h"

namespace sluice::market {

enum class CovarianceKind : std::int32_t {
  // Over the bars that both series have, about their means there, over n - ddof: pandas'
  // DataFrame.cov, PyPortfolioOpt's sample_cov.
  sample,
  // Shrunk to a multiple of the identity with Ledoit and Wolf's shrinkage: scikit-learn's
  // ledoit_wolf. A missing return counts as 0, as in PyPortfolioOpt.
  ledoit_wolf,
  // Weights fall by 1 - 2 / (span + 1) a bar, about the means over all bars a series has:
  // PyPortfolioOpt's exp_cov.
  ewma
};

struct CovarianceOptions {
  CovarianceKind kind = CovarianceKind::sample;
  double ddof = 1;                // sample only
  double span = 180;              // ewma only
  double periods_per_year = 252;  // the result is a year's; 1: a period's
};

// `returns`: the series of one data set one after another, `bars` each, and the data sets
// one after another; `out`: one symmetric matrix of series x series for each set. NaN is
// missing, and the result where no bar has both. `shrinkage`: one per set, or empty; 0 for a
// single series, which has no other target than itself.
// CPU and GPU agree within 1e-12 of the root of the product of the variances.
compute::Outcome covariance(
    compute::Compute& compute, std::span<const double> returns, std::size_t series,
    std::size_t bars, std::span<double> out, const CovarianceOptions& options = {},
    std::span<double> shrinkage = {},
    compute::DevicePreference device = compute::DevicePreference::automatic);

const compute::Operation& covariance_operation();

}  // namespace sluice::market
