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

// What is left to decide: an asset whose weight is fixed has no say in the objective.
struct FreeAssets {
  std::vector<bool> fixed, excluded;  // excluded: fixed at 0
  // Subtracted from the means of free assets, whose weights have a fixed sum; then the largest.
  double middle = 0, spread = 0;
};
FreeAssets free_assets(std::size_t assets, std::span<const double> mean,
                       const PortfolioLimits& limits);

// A return of at least `target`, in units of the largest mean: the solver's tolerances are
// absolute.
QpRow return_row(std::span<const double> mean, double target, std::string name);

// The means as an objective: about their middle, 0 where the weight is fixed.
std::vector<double> rewards_of(std::span<const double> mean, const FreeAssets& free);

// Throws invalid_argument when the limits do not fit the number of assets.
LimitRows limit_rows(std::size_t assets, std::span<const std::string> names,
                     const PortfolioLimits& limits);

// The same limits for multiples of a portfolio: `scale`, the next variable, is the multiple.
LimitRows scaled(const LimitRows& limits);

}  // namespace sluice::market
