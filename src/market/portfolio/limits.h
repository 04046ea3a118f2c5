// The limits of a portfolio as rows of a quadratic program.
#pragma once

#include "market/portfolio/portfolio.h"

namespace sluice::market {

// Variables: the weights; then, where turnover or leverage is limited, a bound of each
// |weight - held| and |weight|.
struct LimitRows {
  std::size_t variables = 0;
  std::vector<QpRow> rows;
};

// The assets whose weight the limits leave open. A fixed weight does not enter the objective.
struct FreeAssets {
  std::vector<bool> fixed, excluded;  // excluded: fixed at 0
  // `middle` is subtracted from the means of free assets, which changes nothing while their weights
  // have a fixed sum. `spread` is the largest of these differences.
  double middle = 0, spread = 0;
};
FreeAssets free_assets(std::size_t assets, std::span<const double> mean,
                       const PortfolioLimits& limits);

// Returns the row for a return of at least `target`, in units of the largest mean: the tolerances
// of the solver are absolute.
QpRow return_row(std::span<const double> mean, double target, std::string name);

// Returns the means as an objective: about their middle, and 0 where the weight is fixed.
std::vector<double> rewards_of(std::span<const double> mean, const FreeAssets& free);

// Throws invalid_argument when the limits do not fit the number of assets.
LimitRows limit_rows(std::size_t assets, std::span<const std::string> names,
                     const PortfolioLimits& limits);

// Returns the same limits for multiples of a portfolio: `scale`, the next variable, is the
// multiple.
LimitRows scaled(const LimitRows& limits);

}  // namespace sluice::market
