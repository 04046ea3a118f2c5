// Portfolios by mean and variance (Markowitz) and by risk contributions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/workers.h"
#include "market/math/qp.h"

namespace sluice::market {

// Yearly means and covariance of the assets. Refers to the caller's arrays.
struct Assets {
  std::span<const double> mean;          // expected returns; may be empty where none is needed
  std::span<const double> covariance;    // assets x assets, symmetric, no negative eigenvalue
  std::span<const std::string> names{};  // for error messages; empty: "asset 0", ...
};

struct SectorLimit {
  std::string name;
  std::vector<std::size_t> assets;
  double min = -kNoLimit, max = kNoLimit;  // of the sum of their weights
};

struct PortfolioLimits {
  // One value for all, or one per asset.
  std::vector<double> lower{0.0}, upper{1.0};
  double sum = 1;  // of all weights; 0: market neutral
  std::vector<SectorLimit> sectors{};
  std::vector<double> held{};        // the weights now; empty: none
  std::optional<double> turnover{};  // upper limit of the sum of |weight - held|
  std::optional<double> leverage{};  // upper limit of the sum of |weight|
  double l2 =
      0;  // adds l2 * (sum of squared weights) to the minimised objective, as in PyPortfolioOpt
};

// The objective of a portfolio.
struct Goal {
  enum class Kind {
    min_volatility,
    max_sharpe,             // of (return - risk_free) / volatility; sum must not be 0
    target_return,          // lowest volatility with a return of at least `value`
    target_risk,            // highest return with a volatility of at most `value`
    max_quadratic_utility,  // of return - value / 2 * variance
    risk_parity             // equal shares of the variance, or as `shares` says; takes no limits
  };
  Kind kind = Kind::min_volatility;
  double value = 0;
  double risk_free = 0;
  std::vector<double> shares{};  // risk_parity: of the variance; above 0, any scale
};

struct Portfolio {
  std::vector<double> weights;
  double expected_return = 0, volatility = 0;  // the return is NaN where no means were given
  double sharpe = 0;                           // (expected_return - risk_free) / volatility
};

// The result is exact to rounding in nearly all cases (see QpSolution). Throws invalid_argument for
// data that do not fit, and for limits that exclude each other, naming those.
Portfolio optimise(const Assets& assets, const Goal& goal, const PortfolioLimits& limits = {});

// `points` portfolios from the lowest volatility to highest return, at equal steps of return.
std::vector<Portfolio> efficient_frontier(const Assets& assets, std::size_t points,
                                          const PortfolioLimits& limits = {}, double risk_free = 0);

// Solves many problems on all cores. One that cannot be solved gets an error and affects no other.
struct PortfolioTask {
  Assets assets;
  Goal goal;
  const PortfolioLimits* limits = nullptr;  // null: the defaults
};
struct PortfolioResult {
  Portfolio portfolio;
  std::string error;  // empty: solved
};
std::vector<PortfolioResult> optimise_all(compute::Workers& workers,
                                          std::span<const PortfolioTask> tasks);

// Returns the share of each asset in the variance of the portfolio.
std::vector<double> risk_shares(std::span<const double> covariance,
                                std::span<const double> weights);

}  // namespace sluice::market
