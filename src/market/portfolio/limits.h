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

// Throws invalid_argument when the limits do not fit the number of assets.
LimitRows limit_rows(std::size_t assets, std::span<const std::string> names,
                     const PortfolioLimits& limits);

// The same limits for multiples of a portfolio: `scale`, the next variable, is the multiple.
LimitRows scaled(const LimitRows& limits);

}  // namespace sluice::market
