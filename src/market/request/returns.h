// Series of returns in requests: given themselves, or as prices.
#pragma once

#include "market/request/request_context.h"
#include "market/risk/covariance.h"

namespace sluice::market {

struct Returns {
  Panel panel;  // of returns; of prices, one bar less
  bool from_prices = false;
  std::size_t bars_given = 0;
};

// Reads "returns" or "prices". Throws unless exactly one is given.
Returns read_returns(RequestContext& context);

// Reads one series of the same kind and length.
std::vector<double> benchmark_returns(const Json& json, const Returns& like);

// Reads "covariance" (its kind) and "span".
CovarianceOptions read_covariance(RequestContext& context, double periods_per_year);

// Throws when the limits do not allow a covariance of this size. Called before covariance_of().
void check_covariance_cost(RequestContext& context, const Panel& returns);

// The result has series x series values.
std::vector<double> covariance_of(const RequestContext& context, const Panel& returns,
                                  const CovarianceOptions& options);
Json matrix_json(std::span<const double> square);

}  // namespace sluice::market
