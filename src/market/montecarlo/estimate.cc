#include "market/montecarlo/estimate.h"

#include <algorithm>
#include <cmath>

namespace sluice::market {

namespace {

BlockSums sum(std::span<const BlockSums> blocks) {
  BlockSums s;
  for (const BlockSums& b : blocks) {
    s.count += b.count;
    s.x += b.x;
    s.xx += b.xx;
    s.c += b.c;
    s.cc += b.cc;
    s.xc += b.xc;
  }
  return s;
}

// The standard error of the mean over groups of equal size, with the control variate applied.
double error_of_groups(std::span<const BlockSums> blocks, int groups, double beta) {
  const std::size_t size = blocks.size() / static_cast<std::size_t>(groups);
  double total = 0, squares = 0;
  for (int g = 0; g < groups; ++g) {
    const BlockSums s = sum(blocks.subspan(static_cast<std::size_t>(g) * size, size));
    const double mean = (s.x - beta * s.c) / s.count;
    total += mean;
    squares += mean * mean;
  }
  const double var = std::max(0.0, squares / groups - total / groups * (total / groups));
  return std::sqrt(var / (groups - 1));
}

}  // namespace

Estimate estimate(std::span<const BlockSums> blocks, double discount, double control_mean,
                  bool use_control, int paths_per_sample, int groups) {
  const BlockSums s = sum(blocks);
  const double n = s.count, mean = s.x / n, control = s.c / n;
  const double var_x = std::max(0.0, s.xx / n - mean * mean);
  const double var_c = std::max(0.0, s.cc / n - control * control);
  const double cov = s.xc / n - mean * control;
  Estimate e;
  e.beta = use_control && var_c > 0 ? cov / var_c : 0;
  e.price = discount * (mean - e.beta * (control - control_mean));
  const double var = std::max(0.0, var_x - e.beta * (2 * cov - e.beta * var_c));
  e.standard_error = discount * (groups > 0 ? error_of_groups(blocks, groups, e.beta)
                                            : std::sqrt(var / std::max(1.0, n - 1)));
  e.paths = static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(paths_per_sample);
  return e;
}

}  // namespace sluice::market
