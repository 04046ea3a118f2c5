// Prices of path-dependent options by simulation, in double precision: European, Asian,
// barrier, lookback and basket payoffs under geometric Brownian motion (several correlated
// assets) or Heston's stochastic volatility.
#pragma once

#include <array>
#include <vector>

#include "compute/compute.h"
#include "market/montecarlo/estimate.h"
#include "market/options/columns.h"

namespace sluice::market {

inline constexpr int kMaxAssets = 16;

enum class Payoff {
  european,           // of the first asset
  asian_price,        // mean of all steps against strike
  asian_strike,       // last price against the mean
  barrier,            // of the first asset, with rebate
  lookback_fixed,     // extreme against strike
  lookback_floating,  // last price against the extreme
  basket,             // weighted sum against strike
  best_of             // greatest of the assets against strike
};

enum class Barrier { down_and_out, up_and_out, down_and_in, up_and_in };

struct PathPayoff {
  Payoff payoff = Payoff::european;
  OptionKind kind = OptionKind::call;
  double strike = 100;
  Barrier barrier = Barrier::down_and_out;
  double level = 0;   // of the barrier
  double rebate = 0;  // at the hit of an "out", at the end for an "in" never hit
  // Watch barrier and extreme between the steps too, by the law of the bridge between
  // them (exact for one asset with constant volatility); else at the steps alone.
  bool continuous = false;
  double extreme = 0;                        // seen before now, by a lookback; 0: none
  std::array<double, kMaxAssets> weights{};  // of a basket
};

struct Asset {
  double spot = 100, div_yield = 0, vol = 0.2;
};

// dv = kappa (theta - v) dt + sigma sqrt(v) dW; the asset's own vol is not used.
struct Heston {
  double v0 = 0.04, kappa = 1, theta = 0.04, sigma = 0.5, rho = -0.7;
};

struct PathModel {
  double rate = 0;
  std::vector<Asset> assets{Asset{}};
  // Correlations of the assets, row by row; empty: none. Must be positive definite.
  std::vector<double> correlation{};
  bool stochastic_volatility = false;  // then one asset, by Heston; full truncation Euler
  Heston heston{};
  double t = 1;
  int steps = 1;
  // When the first step ends (0: the spot is the first fixing); the others are of equal
  // length. Negative: the first one too. A single step ends at t.
  double first = -1;
};

// The control variate, if enabled, is the discounted last price (of the basket, the
// weighted sum; of best_of, the sum), whose mean is known. The same numbers on every
// device; prices agree within 1e-9 of spot.
Estimate simulate(compute::Compute& compute, const PathModel& model, const PathPayoff& payoff,
                  const SimulationOptions& simulation = {},
                  compute::DevicePreference device = compute::DevicePreference::automatic);

// The paths that are actually simulated: full blocks, and with Sobol's sequence powers of two.
std::uint64_t simulated_paths(const SimulationOptions& simulation);

const compute::Operation& paths_operation();

}  // namespace sluice::market
