// Value at risk and CVaR of the returns over several periods, by Monte Carlo.
#pragma once

#include <cstdint>
#include <span>

#include "market/risk/tail.h"

namespace sluice::market {

struct SimulatedTailOptions {
  TailConvention convention = TailConvention::empyrical;
  double cutoff = 0.05;
  double horizon = 1;  // periods
  std::uint64_t paths = 1 << 20;
  std::uint64_t seed = 42;
};

// A geometric Brownian motion with the drift and volatility (ddof 1) of the series' log
// returns. The same seed gives the same bits whatever the number of threads. The paths are
// drawn on the CPU; `count` is their number.
TailRisk simulated_tail(compute::Compute& compute, std::span<const double> returns,
                        const SimulatedTailOptions& options = {},
                        compute::DevicePreference device = compute::DevicePreference::automatic);

}  // namespace sluice::market
