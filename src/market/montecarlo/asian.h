// Asian options (arithmetic mean of discrete fixings) by Monte Carlo under geometric
// Brownian motion, in single precision and vectors. The geometric mean, whose price is
// known, is the control variate.
#pragma once

#include "compute/compute.h"
#include "market/montecarlo/estimate.h"
#include "market/options/columns.h"

namespace sluice::market {

// Fixings at first_fixing + i * span / (fixings - 1), i = 0 .. fixings - 1, in years; the
// payoff max(w (mean - strike), 0) is paid at `expiry`.
struct AsianOption {
  OptionKind kind = OptionKind::call;
  double spot = 100, strike = 100, rate = 0, div_yield = 0, vol = 0.2;
  int fixings = 12;
  double first_fixing = 1.0 / 12, span = 11.0 / 12;
  double expiry = 1;
};

// Returns one price by simulation. Every device draws the same numbers for the same paths;
// logarithm, sine and exponential differ in their last bits, and a price by less than 1e-5 of spot.
// The standard error includes the rounding of prices to floats, 1e-7 of spot or strike.
Estimate asian(compute::Compute& compute, const AsianOption& option,
               const SimulationOptions& simulation = {},
               compute::DevicePreference device = compute::DevicePreference::automatic);

// The paths that are actually simulated: full blocks.
std::uint64_t simulated_asian_paths(const SimulationOptions& simulation);

// Returns the exact price of the same option on the geometric mean.
double asian_geometric(const AsianOption& option);

// For benchmarks and tests of one device: items are blocks of kAsianBlock samples,
// parameters an AsianPlan, output BlockSums.
inline constexpr std::size_t kAsianBlock = 2048;

struct AsianPlan {
  std::uint64_t seed;
  float spot, strike, w;
  int fixings;
  int antithetic;
  float first_drift, first_vol, drift, vol;  // of log2(S / spot), per fixing
};
AsianPlan asian_plan(const AsianOption& option, const SimulationOptions& simulation);
const compute::Operation& asian_operation();

}  // namespace sluice::market
