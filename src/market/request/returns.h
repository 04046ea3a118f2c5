// Series of returns in requests: given themselves, or as prices.
#pragma once

#include "market/request/asking.h"
#include "market/risk/covariance.h"

namespace sluice::market {

struct Returns {
  Panel panel;  // of returns; of prices, one bar less
  bool from_prices = false;
  std::size_t bars_given = 0;
};

// From "returns" or "prices". Throws unless exactly one is there.
Returns read_returns(Asking& asking);

// One series of the same kind and length.
std::vector<double> benchmark_returns(const Json& json, const Returns& like);

// From "covariance" (its kind) and "span".
CovarianceOptions read_covariance(Asking& asking, double periods_per_year);

// Throws where the limits do not allow a covariance of so many. Before covariance_of().
void check_covariance_cost(Asking& asking, const Panel& returns);

// series x series.
std::vector<double> covariance_of(const Asking& asking, const Panel& returns,
                                  const CovarianceOptions& options);
Json matrix_json(std::span<const double> square);

}  // namespace sluice::market
