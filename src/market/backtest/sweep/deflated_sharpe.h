// Bailey and Lopez de Prado's deflated Sharpe ratio: corrects the best result of many trials for
// selection, skew and kurtosis. probability = Phi((SR - SR0) sqrt(n - 1) /
// sqrt(1 - skew SR + (kurtosis - 1) / 4 SR^2)): SR of one bar, SR0 the largest expected of
// `trials`.
#pragma once

#include <cstddef>

#include "market/backtest/engine/backtest.h"
#include "market/backtest/sweep/sweep.h"

namespace sluice::market {

struct DeflatedSharpe {
  std::size_t trials = 0;
  double sharpe = 0;               // of the best, a year
  double expected_max_sharpe = 0;  // of so many trials without any skill
  double probability = 0;          // that the true Sharpe ratio of the best is above that of chance
};

// `best` is the backtest of the best set: its curve gives skew and kurtosis.
DeflatedSharpe deflated_sharpe(const SweepResult& sweep, const Backtest& best);

}  // namespace sluice::market
