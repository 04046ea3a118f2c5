#include "market/montecarlo/asian.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "market/gpu/gpu_operations.h"
#include "market/input/require.h"
#include "market/math/normal.h"
#include "market/montecarlo/asian_kernels.h"

namespace sluice::market {
namespace {

void validate(const AsianOption& o, const SimulationOptions& s) {
  require_range("spot", o.spot, 1e-30, 1e30);
  require_range("strike", o.strike, 0.0, 1e30);
  require_range("vol", o.vol, 0.0, 10.0);
  require_range("rate", o.rate, -10.0, 10.0);
  require_range("div_yield", o.div_yield, -10.0, 10.0);
  require_range("fixings", o.fixings, 1);
  require_range("first_fixing", o.first_fixing, 0.0, 100.0);
  require_range("span", o.span, 0.0, 100.0);
  require_range("expiry", o.expiry, 0.0, 1000.0);
  require_range("paths", static_cast<double>(s.paths), 1.0, 1e15);
}

double step(const AsianOption& o) { return o.fixings > 1 ? o.span / (o.fixings - 1) : 0; }

// Returns the mean of max(w (G - strike), 0), not discounted.
double geometric_mean_payoff(const AsianOption& o) {
  const double n = o.fixings, drift = o.rate - o.div_yield - 0.5 * o.vol * o.vol, dt = step(o);
  const double mean_t = o.first_fixing + dt * (n - 1) / 2;
  // Variance of the mean of W at the fixings: t1 + dt (n-1)(2n-1) / (6n).
  const double var = o.vol * o.vol * (o.first_fixing + dt * (n - 1) * (2 * n - 1) / (6 * n));
  const double mu = std::log(o.spot) + drift * mean_t, sd = std::sqrt(var);
  const double w = o.kind == OptionKind::call ? 1 : -1, forward = std::exp(mu + var / 2);
  if (sd <= 0 || o.strike <= 0) return std::max(w * (forward - o.strike), 0.0);
  const double d2 = (mu - std::log(o.strike)) / sd, d1 = d2 + sd;
  return w * (forward * normal_cdf(w * d1) - o.strike * normal_cdf(w * d2));
}

}  // namespace

double asian_geometric(const AsianOption& option) {
  validate(option, {});
  return std::exp(-option.rate * option.expiry) * geometric_mean_payoff(option);
}

std::uint64_t simulated_asian_paths(const SimulationOptions& s) {
  const std::uint64_t per_block = kAsianBlock * (s.antithetic ? 2 : 1);
  return (s.paths + per_block - 1) / per_block * per_block;
}

AsianPlan asian_plan(const AsianOption& o, const SimulationOptions& s) {
  const double drift = (o.rate - o.div_yield - 0.5 * o.vol * o.vol) * std::numbers::log2e;
  const double vol = o.vol * std::numbers::log2e, dt = step(o);
  return {.seed = s.seed,
          .spot = static_cast<float>(o.spot),
          .strike = static_cast<float>(o.strike),
          .w = o.kind == OptionKind::call ? 1.0f : -1.0f,
          .fixings = o.fixings,
          .antithetic = s.antithetic,
          .first_drift = static_cast<float>(drift * o.first_fixing),
          .first_vol = static_cast<float>(vol * std::sqrt(o.first_fixing)),
          .drift = static_cast<float>(drift * dt),
          .vol = static_cast<float>(vol * std::sqrt(dt))};
}

const compute::Operation& asian_operation() {
  static const compute::Operation o{"asian", asian_cpu, gpu_operations().asian};
  return o;
}

Estimate asian(compute::Compute& compute, const AsianOption& option,
               const SimulationOptions& simulation, compute::DevicePreference device) {
  validate(option, simulation);
  const int each = simulation.antithetic ? 2 : 1;
  const std::size_t per_block = kAsianBlock * static_cast<std::size_t>(each);
  std::vector<BlockSums> blocks(simulated_asian_paths(simulation) / per_block);
  const AsianPlan plan = asian_plan(option, simulation);
  compute::Call call{.out = {{.data = blocks.data(), .item_bytes = sizeof(BlockSums)}},
                     .parameters = &plan,
                     .parameters_bytes = sizeof plan,
                     .items = blocks.size(),
                     .work = static_cast<double>(per_block) * option.fixings};
  compute::Outcome outcome = compute.run(asian_operation(), call, device);
  const double discount = std::exp(-option.rate * option.expiry);
  Estimate found =
      estimate(blocks, discount, geometric_mean_payoff(option), simulation.control_variate, each);
  // Rounding of the prices to floats, which is the same for all paths.
  constexpr double kRounding = 1e-7;
  found.standard_error += kRounding * discount * std::max(option.spot, option.strike);
  found.outcome = std::move(outcome);
  return found;
}

}  // namespace sluice::market
