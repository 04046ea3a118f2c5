// The result of a Monte Carlo simulation and the sums it follows from. Paths come in blocks of
// fixed size; each block's sums are added in a fixed order, so that a result is the same
// bits whatever the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "compute/compute.h"

namespace sluice::market {

struct Estimate {
  double price = 0;
  double standard_error = 0;
  std::uint64_t paths = 0;     // simulated, antithetic ones counted
  double beta = 0;             // how much of the control variate was taken off; 0: none
  compute::Outcome outcome{};  // the device, and the reason for it
};

// Sums of one block: samples x (payoffs; the mean of a pair with antithetic paths) and control
// values c. A sample's sums are of differences from nothing: payoffs are of order spot.
struct BlockSums {
  double count = 0, x = 0, xx = 0, c = 0, cc = 0, xc = 0;
};

struct SimulationOptions {
  std::uint64_t paths = 1 << 20;  // rounded up to full blocks
  std::uint64_t seed = 42;
  bool antithetic = true;
  bool control_variate = true;
  bool sobol = false;  // simulate() only: quasi-random, kSobolShifts times shifted at random
};

inline constexpr int kSobolShifts = 16;

// `control_mean` is the exact mean of c; without `use_control` c is not looked at.
// `paths_per_sample` is 2 with antithetic paths. With `groups`, samples of one group depend on
// each other, and the standard error is that of the groups' means.
Estimate estimate(std::span<const BlockSums> blocks, double discount, double control_mean,
                  bool use_control, int paths_per_sample, int groups = 0);

}  // namespace sluice::market
