#include "market/operations.h"

#include <vector>

#include "market/backtest/sweep/sweep.h"
#include "market/indicators/batch.h"
#include "market/montecarlo/asian.h"
#include "market/montecarlo/paths.h"
#include "market/options/american.h"
#include "market/options/binomial.h"
#include "market/options/black_scholes.h"
#include "market/risk/covariance.h"
#include "market/risk/metrics.h"
#include "market/risk/tail.h"

namespace sluice::market {

std::span<const compute::Operation* const> operations() {
  static const auto all = [] {
    std::vector<const compute::Operation*> list;
    for (std::size_t rule = 0; rule < kRuleCount; ++rule)
      list.push_back(&operation_of(static_cast<IndicatorRule>(rule)));
    for (const compute::Operation* one :
         {&black_scholes_operation<double>(), &black_scholes_operation<float>(),
          &greeks_operation<double>(), &greeks_operation<float>(), &implied_volatility_operation(),
          &american_operation(), &binomial_operation(), &asian_operation(), &paths_operation(),
          &risk_operation(), &tail_operation(), &covariance_operation(), &sweep_operation()})
      list.push_back(one);
    return list;
  }();
  return all;
}

}  // namespace sluice::market
