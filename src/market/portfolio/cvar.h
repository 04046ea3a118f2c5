// Portfolios by the mean loss in the worst cases (CVaR) of given scenarios.
#pragma once

#include "market/portfolio/portfolio.h"

namespace sluice::market {

// Refers to the caller's arrays.
struct Scenarios {
  std::span<const double> mean;     // expected returns, a year's; empty where none is needed
  std::span<const double> returns;  // one asset after another, a return for each scenario
  std::span<const std::string> names{};
};

struct CvarGoal {
  enum class Kind { min_cvar, target_return, target_risk };
  Kind kind = Kind::min_cvar;
  double value = 0;    // minimum return a year, or maximum CVaR
  double beta = 0.95;  // the worst 1 - beta of the scenarios count
  int max_cuts = 2000;
};

struct CvarPortfolio {
  std::vector<double> weights;
  double expected_return = 0;
  double cvar = 0;  // a loss, so positive, of one period
  int cuts = 0;     // that were needed
};

// The CVaR is within a millionth of a usual return of the minimum. Cutting planes: the CVaR is the
// greatest of the mean losses over all choices of the worst scenarios; those that matter are added
// one by one. `l2` of the limits is not used. Throws as optimise() does, and when `max_cuts` do not
// do.
CvarPortfolio optimise_cvar(const Scenarios& scenarios, const CvarGoal& goal,
                            const PortfolioLimits& limits = {});

// Estimates the number of cuts, which are its cost.
double expected_cuts(double assets, double scenarios);

// The mean loss of `losses` in the worst 1 - beta of them, by Rockafellar and Uryasev (one
// counts in part), and with `weights` how much each counts.
double cvar_of(std::span<const double> losses, double beta, std::vector<double>* weights = nullptr);

}  // namespace sluice::market
