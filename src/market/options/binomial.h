// European and American options on the tree of Cox, Ross and Rubinstein.
#pragma once

#include "compute/compute.h"
#include "market/options/columns.h"

namespace sluice::market {

enum class Exercise { european, american };

struct BinomialOptions {
  OptionKind kind = OptionKind::put;
  Exercise exercise = Exercise::american;
  int steps = 1024;  // 1 to kMaxTreeSteps
};
inline constexpr int kMaxTreeSteps = 16384;

// One price per option. NaN where spot, strike, t or vol is not above zero, a number is not
// finite, or the tree has a probability outside [0, 1] (too few steps for so low a
// volatility). CPU and GPU agree within 1e-12 of (spot + strike).
compute::Outcome binomial(compute::Compute& compute, const OptionColumns<double>& options,
                          const BinomialOptions& tree, std::span<double> price,
                          compute::DevicePreference device = compute::DevicePreference::automatic);

const compute::Operation& binomial_operation();

}  // namespace sluice::market
