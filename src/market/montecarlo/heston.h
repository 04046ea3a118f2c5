// European options under Heston's stochastic volatility, from the characteristic function.
#pragma once

#include "market/montecarlo/paths.h"

namespace sluice::market {

struct HestonOption {
  OptionKind kind = OptionKind::call;
  double spot = 100, strike = 100, t = 1, rate = 0, div_yield = 0;
  Heston model{};
};

// Within 1e-10 of (spot + strike). Throws invalid_argument for parameters out of range, and where
// the integral hardly falls: next to no variance, or a very volatile one.
double heston_price(const HestonOption& option);

// Estimates the panels that the integral takes, which are its cost.
double heston_panels(const HestonOption& option);

}  // namespace sluice::market
