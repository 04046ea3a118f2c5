// Value at risk and the mean loss beyond it (CVaR, expected shortfall).
#pragma once

#include <cstdint>
#include <span>

#include "compute/compute.h"

namespace sluice::market {

enum class TailMethod : std::int32_t {
  historical,  // of the returns themselves, exact
  parametric   // of the normal distribution with their mean and deviation (ddof 1)
};

enum class TailConvention : std::int32_t {
  // empyrical and vectorbt: a return, so negative for a loss. VaR: numpy's percentile with
  // linear interpolation. CVaR: mean of the floor((n - 1) cutoff) + 1 smallest returns.
  empyrical,
  // QuantLib: a loss, so positive, and never below 0. VaR: the smallest return whose rank
  // reaches n cutoff. CVaR: mean of the returns below -VaR; NaN when there is none.
  quantlib
};

struct TailOptions {
  TailMethod method = TailMethod::historical;
  TailConvention convention = TailConvention::empyrical;
  double cutoff = 0.05;  // share of the worst returns, above 0 and below 1
};

struct TailRisk {
  double count;  // of returns that are not missing
  double var, cvar;
};

// `returns`: one series after another, `bars` each; NaN is missing. Historical VaR has
// the same bits everywhere; the rest agrees within 1e-12 relative between CPU and GPU.
compute::Outcome tail_risk(compute::Compute& compute, std::span<const double> returns,
                           std::size_t bars, std::span<TailRisk> out,
                           const TailOptions& options = {},
                           compute::DevicePreference device = compute::DevicePreference::automatic);

const compute::Operation& tail_operation();

}  // namespace sluice::market
